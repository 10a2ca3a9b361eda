//! Lines of text in roff, with the few marks that the hand-written parts use.

use roff::{Inline, Roff, bold, roman};

/// Adds a paragraph's text. Words between backticks are set in bold.
pub(crate) fn marked(roff: &mut Roff, text: &str) {
    roff.text(inlines(text));
}

/// Splits a text at its backticks.
pub(crate) fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let parts = parts.filter(|(_, part)| !part.is_empty());
    parts
        .map(|(index, part)| {
            if index % 2 == 1 {
                bold(part)
            } else {
                roman(part)
            }
        })
        .collect()
}

/// Adds lines that are shown as they are, indented.
pub(crate) fn literal(roff: &mut Roff, lines: &[&str]) {
    roff.control("PP", []);
    roff.control("RS", ["4"]);
    roff.control("nf", []);
    for line in lines {
        // An empty line of its own would begin a paragraph.
        roff.text([roman(if line.is_empty() { " " } else { *line })]);
    }
    roff.control("fi", []);
    roff.control("RE", []);
}

/// Returns a page without spaces at line ends and empty lines, with apostrophes that stay what they are.
pub(crate) fn tidy(text: &str) -> String {
    let mut out = String::new();
    let lines = text.lines().map(str::trim_end);
    for line in lines.filter(|line| !line.is_empty()) {
        out += &match line.starts_with('.') {
            true => line.to_owned(),
            false => line.replace('\'', "\\(aq"),
        };
        out.push('\n');
    }
    out
}
