//! A page in Markdown as a manual page: headings, paragraphs, lists, tables and blocks of code.

use roff::Roff;

use crate::text::{inlines, literal, marked, tidy};
use crate::{Title, begin};

/// Returns the page `name` of a text in Markdown. Its first heading is left out: `about` takes its place. The
/// names in `see_also` are other pages, such as `tcpdump(8)`.
#[must_use]
pub fn from_markdown(
    name: &str,
    about: &str,
    text: &str,
    see_also: &[&str],
    title: &Title<'_>,
) -> String {
    let mut page = Page {
        roff: begin(name, about, title),
        is_fresh: true,
    };
    page.roff.control("SH", ["DESCRIPTION"]);
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("# "))
        .skip(1)
        .collect();
    page.blocks(&lines);
    page.roff.control("SH", ["SEE ALSO"]);
    let bold = see_also
        .iter()
        .map(|page| format!("`{}", page.replacen('(', "`(", 1)));
    let bold = bold.collect::<Vec<_>>().join(", ");
    marked(&mut page.roff, &bold);
    tidy(&page.roff.to_roff())
}

struct Page {
    roff: Roff,
    /// Whether a heading was the last: a paragraph needs no mark then.
    is_fresh: bool,
}

impl Page {
    fn blocks(&mut self, lines: &[&str]) {
        let mut rest = lines;
        while let Some((&first, after)) = rest.split_first() {
            rest = if first.is_empty() || first.starts_with("<!--") || first.starts_with("![") {
                after
            } else if let Some(heading) = first.strip_prefix("## ") {
                self.heading("SH", &heading.to_uppercase());
                after
            } else if let Some(heading) = first
                .trim_start_matches('#')
                .strip_prefix(' ')
                .filter(|_| first.starts_with('#'))
            {
                self.heading("SS", heading);
                after
            } else if first.starts_with("```") {
                let end = after
                    .iter()
                    .position(|line| line.starts_with("```"))
                    .unwrap_or(after.len());
                literal(&mut self.roff, &after[..end]);
                self.is_fresh = false;
                after.get(end + 1..).unwrap_or_default()
            } else if first.starts_with('|') {
                let (table, after) = split(rest, |line| line.starts_with('|'));
                self.table(table);
                after
            } else {
                let is_item = |line: &str| line.starts_with("- ");
                let (block, after) = match is_item(first) {
                    true => {
                        let more = after
                            .iter()
                            .position(|line| !line.starts_with("  "))
                            .unwrap_or(after.len());
                        rest.split_at(more + 1)
                    }
                    false => split(rest, |line| {
                        !line.is_empty()
                            && !line.starts_with(['|', '#'])
                            && !line.starts_with("```")
                            && !is_item(line)
                    }),
                };
                self.paragraph(block);
                after
            };
        }
    }

    fn heading(&mut self, level: &str, text: &str) {
        self.roff
            .control(level, [plain(text).replace('`', "").as_str()]);
        self.is_fresh = true;
    }

    fn paragraph(&mut self, lines: &[&str]) {
        let text = lines
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" ");
        match text.strip_prefix("- ") {
            Some(item) => {
                self.roff.control("IP", ["\\(bu", "2"]);
                marked(&mut self.roff, &plain(item));
            }
            None => {
                if !self.is_fresh {
                    self.roff.control("PP", []);
                }
                marked(&mut self.roff, &plain(&text));
            }
        }
        self.is_fresh = false;
    }

    /// Adds a table as a list: the first cell of a row above the others, which have the names of their columns
    /// in front where there are several.
    fn table(&mut self, rows: &[&str]) {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
        let Some((header, rows)) = rows.split_first() else {
            return;
        };
        for row in rows.iter().skip(1) {
            let Some((first, others)) = row.split_first() else {
                continue;
            };
            self.roff.control("TP", []);
            self.roff.text(inlines(&plain(first)));
            let several = others.len() > 1;
            let named = others
                .iter()
                .zip(header.iter().skip(1))
                .filter(|(cell, _)| !cell.is_empty());
            let texts = named.map(|(cell, name)| match several && !name.is_empty() {
                true => format!("{name}: {cell}"),
                false => cell.clone(),
            });
            let text = texts.collect::<Vec<_>>().join("; ");
            let text = plain(if text.is_empty() { "\u{2014}" } else { &text });
            marked(&mut self.roff, &text);
        }
        self.is_fresh = false;
    }
}

/// Splits lines after those at the beginning for which `belongs` is true; the first one always does.
fn split<'a>(
    lines: &'a [&'a str],
    belongs: impl Fn(&str) -> bool,
) -> (&'a [&'a str], &'a [&'a str]) {
    let more = lines.iter().skip(1).position(|line| !belongs(line));
    lines.split_at(more.map_or(lines.len(), |more| more + 1))
}

/// Returns the cells of a table's row.
fn cells(row: &str) -> Vec<String> {
    let inner = row.trim().trim_start_matches('|').trim_end();
    let inner = inner
        .strip_suffix('|')
        .unwrap_or(inner)
        .replace("\\|", "\u{1}");
    let cells = inner
        .split('|')
        .map(|cell| cell.trim().replace('\u{1}', "|"));
    cells.collect()
}

/// Returns a text without the marks of Markdown that a manual page lacks: links become their text, and
/// emphasis is dropped outside backticks.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            out.push('`');
        }
        match index % 2 {
            1 => out += part,
            _ => out += &part.replace("**", "").replace('*', ""),
        }
    }
    unlinked(&out)
}

/// Returns a text with `[text](target)` replaced by its text.
fn unlinked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(middle) = rest.find("](") {
        let start = rest[..middle].rfind('[');
        let end = rest[middle..].find(')');
        let (Some(start), Some(end)) = (start, end) else {
            break;
        };
        out += &rest[..start];
        out += &rest[start + 1..middle];
        rest = &rest[middle + end + 1..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: Title<'_> = Title {
        section: "7",
        date: "2026-01-31",
        source: "x 1",
    };

    fn page(text: &str) -> String {
        from_markdown("x", "an example", text, &["y(1)"], &TITLE)
    }

    #[test]
    fn tables_become_lists() {
        let text = page(
            "# X\n\n| example | takes | leaves |\n|---|---|---|\n| `a \\|\\| b` | one | |\n| c | d | e |\n",
        );
        assert!(
            text.contains(".TP\n\\fBa || b\\fR\ntakes: one\n.TP\nc\ntakes: d; leaves: e\n"),
            "{text}"
        );
    }

    #[test]
    fn links_and_emphasis_become_text() {
        assert_eq!(
            plain("see [the *page*](a.md#b) and `x*y` [z](w)"),
            "see the page and `x*y` z"
        );
        assert_eq!(plain("a[0] and b](c"), "a[0] and b](c");
    }

    #[test]
    fn blocks_follow_each_other() {
        let text = page(
            "# X\nfirst\nline\n\n## Head\n\n- item\n  more\n- other\n\n```\n.code\n\nend\n```\nlast\n",
        );
        assert!(text.contains(".SH DESCRIPTION\nfirst line\n.SH HEAD\n.IP \\(bu 2\nitem more\n.IP \\(bu 2\nother\n"), "{text}");
        assert!(text.contains(".nf\n\\&.code\n"), "{text}");
        assert!(text.ends_with(".SH \"SEE ALSO\"\n\\fBy\\fR(1)\n"), "{text}");
    }
}
