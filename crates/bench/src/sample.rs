//! Numbers from repeated runs: their middle, their spread, and what may be concluded.

use serde::{Deserialize, Serialize};

/// One figure, measured several times; the values in the order of size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Takes in the value of one more run.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.0.len()
    }

    /// The middle value, or the mean of the two in the middle; 0 without values.
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

    /// The least value; 0 without values.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or_default()
    }

    /// The greatest value; 0 without values.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or_default()
    }

    /// As text: the median, and the range where there is more than one run.
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

/// Which of two is less, where the runs allow to say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every run of the first is below every run of the second, and far enough.
    Less,
    /// Every run of the first is above every run of the second, and far enough.
    More,
    /// Every run of both has the same value.
    Equal,
    /// The spread swallows the difference, or one run each cannot tell.
    Open,
}

impl Verdict {
    /// As a sentence of a table.
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

/// So many runs of each are apart by chance in 3 of 100 cases at most; fewer must be farther apart.
const ENOUGH: usize = 4;

/// Compares the whole ranges, not only the medians. One run of each shows nothing; with fewer than
/// four, what lies between the ranges must be wider than both together (two runs each, of the same
/// thing, lie apart in one case of three, so far apart in one of sixteen).
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
        // Two runs that are no farther apart than they are wide may be so by chance; four may not.
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
