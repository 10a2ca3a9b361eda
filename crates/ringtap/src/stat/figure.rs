//! Numbers in readable form: three digits and a unit.

use ringtap_capture::devices::escape;
use ringtap_capture::stat::{Count, Interval, Statistics};

use crate::notice::counted;

/// Powers of 1000.
const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// Returns a number with three significant digits and the letter of its thousands: `999`, `1.23 M`.
pub(super) fn human(number: f64) -> String {
    let mut value = number;
    let mut unit = 0;
    // A number that would be rounded to 1000 belongs to the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        return format!("{value:.0} ");
    }
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Returns the count per second; 0 for an interval of no length.
pub(super) fn rate(count: u64, interval: &Interval) -> f64 {
    let seconds = interval.elapsed.as_secs_f64();
    if seconds > 0.0 {
        to_f64(count) / seconds
    } else {
        0.0
    }
}

/// Converts a count for rates and display: beyond 2^53 the last digits are lost.
#[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
pub(super) fn to_f64(count: u64) -> f64 {
    count as f64
}

/// Returns the displayed names of the filters, the total's last. A filter that accepts all is empty.
pub(super) fn names(filters: &[String]) -> Vec<String> {
    let name = |filter: &String| {
        if filter.trim().is_empty() {
            "(all)".to_owned()
        } else {
            escape(filter.as_bytes())
        }
    };
    let total = std::iter::once("total".to_owned());
    filters.iter().map(name).chain(total).collect()
}

/// Returns the counts in the order of [`names`].
pub(super) fn counts(interval: &Interval) -> impl Iterator<Item = Count> + '_ {
    let total = std::iter::once(interval.total);
    interval.filters.iter().copied().chain(total)
}

/// The rows: filters, or the reasons of dropped packets.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// The filters' expressions, or the reasons' names.
    pub(super) names: Vec<String>,
    /// Whether rows are reasons. Those without packets are not shown.
    pub(super) are_reasons: bool,
}

impl Rows {
    /// Returns the rows of statistics that count these filters.
    pub(super) fn of(filters: &[String], statistics: &Statistics) -> Self {
        let reasons = statistics.reasons();
        let are_reasons = !reasons.is_empty();
        let names = if are_reasons { reasons } else { filters };
        Self {
            names: names.to_vec(),
            are_reasons,
        }
    }

    /// Returns the head of their column.
    pub(super) fn head(&self) -> &'static str {
        if self.are_reasons { "reason" } else { "filter" }
    }

    /// Returns whether a row is shown; the total's is the last.
    pub(super) fn shows(&self, row: usize, count: Count) -> bool {
        !self.are_reasons || count.packets > 0 || row == self.names.len()
    }
}

/// Returns a line with exact counts for each filter and for the total, and one for losses if there are any.
pub(super) fn summary(rows: &Rows, totals: &Interval) -> Vec<String> {
    let names = names(&rows.names);
    let shown = names.iter().zip(counts(totals)).enumerate();
    let shown = shown.filter(|(row, (_, count))| rows.shows(*row, *count));
    let shown: Vec<(&String, Count)> = shown.map(|(_, row)| row).collect();
    let widths = shown.iter().map(|(name, _)| name.chars().count());
    let width = widths.max().unwrap_or(0);
    let lines = shown.into_iter().map(|(name, count)| {
        let Count { packets, bytes } = count;
        let s = |count| if count == 1 { " " } else { "s" };
        let (a, b) = (s(packets), s(bytes).trim_end());
        format!("  {name:<width$} {packets:>14} packet{a} {bytes:>18} byte{b}")
    });
    let lost = totals.lost.filter(|lost| *lost > 0);
    let lost = lost.map(|lost| format!("  {} not counted: lost", counted(lost, "packet")));
    let taken = totals.before_hook.filter(|taken| *taken > 0);
    let taken = taken.map(|taken| {
        let packets = counted(taken, "packet");
        format!("  {packets} not counted: taken before the hook")
    });
    lines.chain(lost).chain(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let cases = [
            (0.0, "0 "),
            (0.4, "0 "),
            (999.0, "999 "),
            (999.6, "1.00 k"),
            (1_234.0, "1.23 k"),
            (9_996.0, "10.0 k"),
            (99_960.0, "100 k"),
            (999_400.0, "999 k"),
            (999_500.0, "1.00 M"),
            (12_345_678.0, "12.3 M"),
            (1.8e19, "18.0 E"),
        ];
        for (number, text) in cases {
            assert_eq!(human(number), text, "{number}");
        }
    }

    #[test]
    fn rates_are_of_the_true_time() {
        let interval = Interval {
            elapsed: std::time::Duration::from_millis(1_250),
            ..Interval::default()
        };
        assert!((rate(1_000, &interval) - 800.0).abs() < 1e-9);
        assert!(rate(1_000, &Interval::default()).abs() < 1e-9);
    }
}
