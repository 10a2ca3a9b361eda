//! Numbers from repeated runs: their middle, their spread, and what may be concluded.

/// One figure, measured several times.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample(Vec<f64>);

impl Sample {
    pub(super) fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// The middle value, or the mean of the two in the middle; 0 without values.
    pub(super) fn median(&self) -> f64 {
        let count = self.0.len();
        match (
            self.0.get(count.saturating_sub(1) / 2),
            self.0.get(count / 2),
        ) {
            (Some(low), Some(high)) => f64::midpoint(*low, *high),
            _ => 0.0,
        }
    }

    pub(super) fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or_default()
    }

    pub(super) fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or_default()
    }
}

/// Which of two is less, where the runs allow to say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every run of the first is below every run of the second.
    Less,
    /// Every run of the first is above every run of the second.
    More,
    /// Every run of both has the same value.
    Equal,
    /// The spread swallows the difference.
    Open,
}

/// Compares the whole ranges, not only the medians.
pub(super) fn compare(first: &Sample, second: &Sample) -> Verdict {
    let all = [first.most(), second.least(), second.most()];
    if all
        .iter()
        .all(|value| (value - first.least()).abs() < f64::EPSILON)
    {
        Verdict::Equal
    } else if first.most() < second.least() {
        Verdict::Less
    } else if first.least() > second.most() {
        Verdict::More
    } else {
        Verdict::Open
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
    }

    #[test]
    fn a_conclusion_needs_ranges_apart() {
        assert_eq!(
            compare(&sample(&[1.0, 2.0]), &sample(&[3.0, 4.0])),
            Verdict::Less
        );
        assert_eq!(
            compare(&sample(&[3.0, 4.0]), &sample(&[1.0, 2.0])),
            Verdict::More
        );
        assert_eq!(
            compare(&sample(&[1.0, 3.0]), &sample(&[2.0, 4.0])),
            Verdict::Open
        );
        assert_eq!(
            compare(&sample(&[0.0, 0.0]), &sample(&[0.0])),
            Verdict::Equal
        );
    }
}
