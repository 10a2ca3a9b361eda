//! Samples of repeated runs: median, spread, and the conclusion that they allow.

use serde::{Deserialize, Serialize};

/// A value that was measured several times; sorted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Adds the value of one more run.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.0.len()
    }

    /// Returns the median, or the mean of the two middle values; 0 without values.
    #[must_use]
    pub fn median(&self) -> f64 {
        let count = self.0.len();
        match (
            self.0.get(count.saturating_sub(1) / 2),
            self.0.get(count / 2),
        ) {
            (Some(low), Some(high)) => f64::midpoint(*low, *high),
            _ => 0.0,
        }
    }

    /// Returns the lowest value; 0 without values.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or_default()
    }

    /// Returns the greatest value; 0 without values.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or_default()
    }

    /// Returns the median as text, with the range if there is more than one run.
    #[must_use]
    pub fn show(&self, digits: usize) -> String {
        let (median, least, most) = (self.median(), self.least(), self.most());
        match self.runs() {
            0 => "–".to_owned(),
            1 => format!("{median:.digits$}"),
            _ => format!("{median:.digits$} ({least:.digits$}–{most:.digits$})"),
        }
    }
}

/// Which of two samples is less, if the runs allow a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every run of the first is below every run of the second, and far enough.
    Less,
    /// Every run of the first is above every run of the second, and far enough.
    More,
    /// Every run of both has the same value.
    Equal,
    /// The spread exceeds the difference, or there is only one run each.
    Open,
}

impl Verdict {
    /// Returns the verdict as text in a table.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
            Self::Equal => "equal",
            Self::Open => "no difference shown",
        }
    }
}

/// With this many runs each, ranges differ by chance in at most 3 of 100 cases; fewer runs need a
/// larger gap.
const ENOUGH: usize = 4;

/// Compares the whole ranges, not only the medians. One run each allows no conclusion. With fewer
/// than four, the gap between the ranges must be wider than both together: two runs each of the
/// same thing are apart in one case of three, but so far apart in one of sixteen.
#[must_use]
pub fn compare(first: &Sample, second: &Sample) -> Verdict {
    let all = [first.most(), second.least(), second.most()];
    if all
        .iter()
        .all(|value| (value - first.least()).abs() < f64::EPSILON)
    {
        Verdict::Equal
    } else {
        let runs = first.runs().min(second.runs());
        let gap = (second.least() - first.most()).max(first.least() - second.most());
        let widths = (first.most() - first.least()) + (second.most() - second.least());
        let needed = if runs < ENOUGH { widths } else { 0.0 };
        if runs < 2 || gap <= needed {
            Verdict::Open
        } else if first.most() < second.least() {
            Verdict::Less
        } else {
            Verdict::More
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sample, Verdict, compare};

    fn sample(values: &[f64]) -> Sample {
        let mut sample = Sample::default();
        values.iter().for_each(|&value| sample.push(value));
        sample
    }

    #[test]
    fn medians_and_ranges() {
        let odd = sample(&[3.0, 1.0, 2.0]);
        assert!((odd.median() - 2.0).abs() < 1e-9);
        assert!((odd.least() - 1.0).abs() < 1e-9 && (odd.most() - 3.0).abs() < 1e-9);
        assert!((sample(&[1.0, 2.0]).median() - 1.5).abs() < 1e-9);
        assert!(Sample::default().median().abs() < 1e-9);
        assert_eq!(odd.show(1), "2.0 (1.0–3.0)");
        assert_eq!(sample(&[1.25]).show(2), "1.25");
        assert_eq!(Sample::default().show(2), "–");
    }

    #[test]
    fn a_conclusion_needs_ranges_apart() {
        let (low, high) = (sample(&[1.0, 2.0]), sample(&[5.0, 6.0]));
        assert_eq!(compare(&low, &high), Verdict::Less);
        assert_eq!(compare(&high, &low), Verdict::More);
        // Two runs with a gap no wider than their ranges may differ by chance; four may not.
        let near = sample(&[3.0, 4.0]);
        assert_eq!(compare(&low, &near), Verdict::Open);
        let (low, near) = (sample(&[1.0, 2.0, 1.5, 1.2]), sample(&[3.0, 4.0, 3.5, 3.2]));
        assert_eq!(compare(&low, &near), Verdict::Less);
        assert_eq!(compare(&near, &low), Verdict::More);
        let (one, other) = (sample(&[1.0, 3.0]), sample(&[2.0, 4.0]));
        assert_eq!(compare(&one, &other), Verdict::Open);
        assert_eq!(compare(&other, &one).text(), "no difference shown");
        let zeros = (sample(&[0.0, 0.0]), sample(&[0.0]));
        assert_eq!(compare(&zeros.0, &zeros.1), Verdict::Equal);
    }

    #[test]
    fn one_run_each_shows_nothing() {
        assert_eq!(compare(&sample(&[1.0]), &sample(&[9.0])), Verdict::Open);
        let nothing = Sample::default();
        assert_eq!(compare(&nothing, &sample(&[1.0, 2.0])), Verdict::Open);
    }
}
