//! The appearance of the demo: headings, typed commands, their output indented.

use std::path::Path;
use std::process::Command;

/// Prints a heading with its number.
pub(super) fn heading(number: u32, text: &str) {
    println!("\n{number}. {text}\n");
}

/// Prints a remark on the last output.
pub(super) fn remark(text: &str) {
    println!("   -> {text}");
}

/// Prints a command as a reader would type it: program without its folder, files without theirs.
pub(super) fn command(command: &Command, folder: &Path) {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let mut line = format!("   $ {}", program.to_string_lossy());
    for argument in command.get_args() {
        let path = Path::new(argument);
        let short = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
        line.push(' ');
        if short.contains(' ') {
            line.push_str(&format!("'{short}'"));
        } else {
            line.push_str(&short);
        }
    }
    println!("{line}");
}

/// Prints this many lines of a program's output, then the number of further lines.
pub(super) fn output(text: &[u8], most: usize) {
    let text = String::from_utf8_lossy(text);
    for line in text.lines().take(most) {
        println!("     {line}");
    }
    let left = text.lines().count().saturating_sub(most);
    if left > 0 {
        println!("     (and {left} lines more)");
    }
}

/// Returns a number with its thousands apart: 1,234,567.
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_000), "1,000");
        assert_eq!(number(1_234_567), "1,234,567");
    }
}
