//! The own program: which addresses belong to the application's part of it.

use std::fs;
use std::ops::Range;

use object::{Object, ObjectSegment, ObjectSymbol};

/// What the application's function is called, somewhere in its mangled name.
const APPLICATION: &str = "application_sees";

/// The addresses of the application's code in this process; nothing where the program was stripped of
/// its symbols.
pub(crate) fn application() -> Option<Range<u64>> {
    let data = fs::read("/proc/self/exe").ok()?;
    let file = object::File::parse(&*data).ok()?;
    let symbol = file.symbols().find(|symbol| {
        symbol.size() > 0 && symbol.name().is_ok_and(|name| name.contains(APPLICATION))
    })?;
    let slide = slide(&file)?;
    let start = symbol.address().wrapping_add(slide);
    Some(start..start.checked_add(symbol.size())?)
}

/// What lies between addresses in the file and in memory.
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
    // Pages begin before segments where those are not aligned.
    Some(start.wrapping_sub(in_file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_is_found_where_it_is() {
        let range = application().expect("tests keep their symbols");
        let packet = ringtap_capture::Packet {
            timestamp: ringtap_capture::Timestamp::new(0, 0),
            len: 0,
            interface: 0,
            flags: ringtap_capture::PacketFlags(0),
            data: &[],
        };
        assert_eq!(crate::reader::application_sees(&packet), 0);
        let function: fn(&ringtap_capture::Packet<'_>) -> u64 = crate::reader::application_sees;
        assert_eq!(function as usize as u64, range.start);
    }
}
