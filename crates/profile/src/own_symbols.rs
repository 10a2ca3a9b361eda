//! The addresses of the application's code in ringtap's own program.

use std::fs;
use std::ops::Range;

use object::{Object, ObjectSegment, ObjectSymbol};
use ringtap_capture::Packet;

/// Returns the addresses of the application's code in this process; `None` if the program has been
/// stripped of its symbols.
pub(crate) fn application() -> Option<Range<u64>> {
    let data = fs::read("/proc/self/exe").ok()?;
    let file = object::File::parse(&*data).ok()?;
    let function: fn(&Packet<'_>, u64) -> u64 = crate::reader::application_sees;
    let start = function as usize as u64;
    let in_file = start.wrapping_sub(slide(&file)?);
    let is_it = |symbol: &object::Symbol<'_, '_>| symbol.size() > 0 && symbol.address() == in_file;
    let symbol = file.symbols().find(is_it)?;
    Some(start..start.checked_add(symbol.size())?)
}

/// Returns the difference between addresses in memory and in the file.
fn slide(file: &object::File<'_>) -> Option<u64> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let program = fs::read_link("/proc/self/exe").ok()?;
    let program = program.to_str()?;
    let first = maps.lines().find(|line| line.ends_with(program))?;
    let mut fields = first.split_ascii_whitespace();
    let start = u64::from_str_radix(fields.next()?.split_once('-')?.0, 16).ok()?;
    let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
    let segment = file.segments().find(|segment| {
        let (at, len) = segment.file_range();
        (at..at + len.max(1)).contains(&offset)
    })?;
    let in_file = segment.address() + (offset - segment.file_range().0);
    // Pages begin before segments that are not aligned.
    Some(start.wrapping_sub(in_file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_is_found_where_it_is() {
        let range = application().expect("tests keep their symbols");
        let name = |symbol: &object::Symbol<'_, '_>| {
            let name = symbol.name().unwrap_or_default();
            name.contains("application_sees").then_some(symbol.size())
        };
        let data = fs::read("/proc/self/exe").expect("the own program");
        let file = object::File::parse(&*data).expect("ELF");
        let sizes: Vec<u64> = file.symbols().filter_map(|symbol| name(&symbol)).collect();
        assert!(sizes.contains(&(range.end - range.start)), "{sizes:?}");
    }
}
