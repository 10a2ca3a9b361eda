//! Prints intervals as a table on a terminal, drawn over the previous one.

use std::io::{self, StdoutLock, Write};

use ringtap_capture::stat::{Interval, Statistics};
use terminal_size::{Height, Width, terminal_size};

use super::Output;
use super::figure::{Rows, counts, human, names, rate, to_f64};
use crate::cli::StatArgs;

/// Columns and rows of a terminal of unknown size.
const USUAL: (usize, usize) = (80, 24);
/// Width of each figure, with the gap before it.
const FIGURE: usize = 12;
/// The columns of figures.
const HEADS: [&str; 4] = ["packets/s", "bit/s", "packets", "bytes"];
/// The minimum width of the filters' column.
const LEAST_NAME: usize = 8;
/// The number of rows that are not filters: the heading, the column heads, the total, the cursor's row.
const OTHER_ROWS: usize = 4;

/// The control sequence that erases from the cursor to the end of the line (ECMA-48, EL).
const ERASE_LINE: &str = "\x1b[K";

/// A table, with rates for the last interval, or counts for the whole run.
pub(super) struct Table {
    rows: Rows,
    heading: String,
    out: StdoutLock<'static>,
    /// The number of lines of the table on the screen.
    drawn: usize,
}

impl Table {
    pub(super) fn new(args: &StatArgs, rows: Rows, statistics: &Statistics) -> Self {
        let description = statistics.describe();
        Self {
            rows,
            heading: format!(
                "{} ({}), every {:?}",
                description.device,
                description.hooks(),
                args.interval
            ),
            out: io::stdout().lock(),
            drawn: 0,
        }
    }
}

impl Output for Table {
    fn interval(&mut self, interval: &Interval, totals: &Interval) -> io::Result<()> {
        let (width, height) = size();
        let lines = lines(&self.rows, &self.heading, interval, totals, (width, height));
        let mut text = String::new();
        if self.drawn > 0 {
            // Cursor up (ECMA-48, CUU), to the first line of the table.
            text.push_str(&format!("\x1b[{}A\r", self.drawn));
        }
        for line in &lines {
            text.push_str(line);
            text.push_str(ERASE_LINE);
            text.push('\n');
        }
        // Removes the rest of a longer table: erase to the end of the screen (ECMA-48, ED).
        text.push_str("\x1b[J");
        self.drawn = lines.len();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn size() -> (usize, usize) {
    terminal_size().map_or(USUAL, |(Width(width), Height(height))| {
        (width.into(), height.into())
    })
}

/// Returns the table's lines, none wider than the terminal, and not more than it has rows.
fn lines(
    rows: &Rows,
    heading: &str,
    interval: &Interval,
    totals: &Interval,
    (width, height): (usize, usize),
) -> Vec<String> {
    let names = names(&rows.names);
    let shown = names
        .iter()
        .zip(counts(interval))
        .zip(counts(totals))
        .enumerate();
    let shown = shown.filter(|(row, (_, total))| rows.shows(*row, *total));
    let shown: Vec<_> = shown.map(|(_, row)| row).collect();
    let widths = shown.iter().map(|((name, _), _)| name.chars().count());
    let longest = widths.max();
    let room = width.saturating_sub(1);
    // A narrow terminal shows fewer columns.
    let columns = (room.saturating_sub(LEAST_NAME) / FIGURE).min(HEADS.len());
    let name_width = room.saturating_sub(columns * FIGURE);
    let name_width = name_width.min(longest.unwrap_or(0).max(LEAST_NAME));
    let row = |name: &str, figures: &[String]| {
        let mut line = format!("{:<name_width$}", cut(name, name_width));
        for figure in &figures[..columns] {
            line.push_str(&format!("{figure:>FIGURE$}"));
        }
        line
    };
    let elapsed = totals.elapsed.as_secs_f64();
    let lost = match totals.lost {
        None | Some(0) => String::new(),
        Some(lost) => format!(", {lost} packets lost"),
    };
    let taken = match totals.before_hook {
        None | Some(0) => String::new(),
        Some(taken) => format!(", {taken} packets taken before the hook"),
    };
    let mut lines = vec![
        cut(&format!("{heading}, {elapsed:.1} s{lost}{taken}"), room),
        row(rows.head(), &HEADS.map(|head| format!("{head} "))),
    ];
    let mut lines_of_rows: Vec<String> = shown
        .into_iter()
        .map(|((name, now), total)| {
            let figures = [
                human(rate(now.packets, interval)),
                human(8.0 * rate(now.bytes, interval)),
                human(to_f64(total.packets)),
                human(to_f64(total.bytes)),
            ];
            row(name, &figures)
        })
        .collect();
    let total = lines_of_rows.pop();
    let fitting = height.saturating_sub(OTHER_ROWS).max(1);
    if lines_of_rows.len() > fitting {
        let left_out = lines_of_rows.len() - (fitting - 1);
        lines_of_rows.truncate(fitting - 1);
        lines_of_rows.push(cut(&format!("… {left_out} more {}s", rows.head()), room));
    }
    lines.extend(lines_of_rows);
    lines.extend(total);
    lines
}

/// Returns a text of at most `width` columns, with a mark if something is missing.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(std::iter::once('…')).take(width).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringtap_capture::stat::Count;

    use super::*;

    fn drawn(filters: &[&str], size: (usize, usize)) -> Vec<String> {
        let filters: Vec<String> = filters.iter().map(ToString::to_string).collect();
        let count = Count {
            packets: 1_500_000,
            bytes: 90_000_000,
        };
        let interval = Interval {
            elapsed: Duration::from_secs(1),
            filters: vec![count; filters.len()],
            total: count,
            lost: Some(0),
            before_hook: None,
        };
        lines(
            &Rows {
                names: filters,
                are_reasons: false,
            },
            "veth1 (tcx ingress), every 1s",
            &interval,
            &interval,
            size,
        )
    }

    #[test]
    fn columns_line_up() {
        let lines = drawn(&["udp", ""], (80, 24));
        let expected = [
            "veth1 (tcx ingress), every 1s, 1.0 s",
            "filter    packets/s       bit/s     packets       bytes ",
            "udp           1.50 M       720 M      1.50 M      90.0 M",
            "(all)         1.50 M       720 M      1.50 M      90.0 M",
            "total         1.50 M       720 M      1.50 M      90.0 M",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_small_terminal_is_not_overrun() {
        let long = "tcp port 443 and host 192.0.2.1 and not host 192.0.2.77 and greater 1000";
        let many = vec![long; 40];
        for size in [(80, 24), (40, 10), (20, 5), (1, 1), (0, 0)] {
            let lines = drawn(&many, size);
            let widest = lines.iter().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= size.0.max(1), "{size:?}: {lines:?}");
            assert!(lines.len() <= size.1.max(OTHER_ROWS), "{size:?}: {lines:?}");
        }
        assert!(
            drawn(&many, (80, 24))
                .iter()
                .any(|line| line.contains("… 21 more filters"))
        );
    }
}
