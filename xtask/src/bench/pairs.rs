//! The harness: ringtap and a peer by turns, so that what slows the machine slows both.

use super::sample::{Sample, Verdict, compare};

/// The one that ringtap is compared with, or ringtap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Ringtap,
    Peer,
}

/// A figure that a run yields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    /// Its name with its unit.
    pub(super) name: &'static str,
    /// Digits after the point.
    pub(super) digits: usize,
}

/// Both sides of one case.
pub(super) struct Comparison {
    pub(super) case: String,
    pub(super) peer: &'static str,
    pub(super) figures: Vec<Figure>,
}

/// One metric of both sides.
pub(super) struct Figure {
    pub(super) metric: Metric,
    pub(super) ringtap: Sample,
    pub(super) peer: Sample,
    /// Of each pair of runs: ringtap's value divided by the peer's.
    pub(super) ratio: Sample,
}

/// One row of raw data: run, side, metric, value.
pub(super) type Row = (usize, Side, &'static str, f64);

/// Runs a case: once each to warm up, then so many pairs, the first of a pair changing each time.
/// `measure` yields a value for each of `metrics`.
pub(super) fn run(
    case: &str,
    peer: &'static str,
    metrics: &[Metric],
    pairs: usize,
    mut measure: impl FnMut(Side) -> Result<Vec<f64>, String>,
) -> Result<(Comparison, Vec<Row>), String> {
    let mut rows = Vec::new();
    let mut figures: Vec<Figure> = metrics.iter().map(|&metric| Figure::new(metric)).collect();
    for side in [Side::Ringtap, Side::Peer] {
        measure(side)?;
    }
    for pair in 0..pairs {
        let (ringtap, other) = if pair % 2 == 0 {
            let ringtap = measure(Side::Ringtap)?;
            (ringtap, measure(Side::Peer)?)
        } else {
            let other = measure(Side::Peer)?;
            (measure(Side::Ringtap)?, other)
        };
        for ((figure, own), other) in figures.iter_mut().zip(ringtap).zip(other) {
            figure.ringtap.push(own);
            figure.peer.push(other);
            if other > 0.0 {
                figure.ratio.push(own / other);
            }
            rows.push((pair, Side::Ringtap, figure.metric.name, own));
            rows.push((pair, Side::Peer, figure.metric.name, other));
        }
    }
    Ok((
        Comparison {
            case: case.to_owned(),
            peer,
            figures,
        },
        rows,
    ))
}

impl Figure {
    fn new(metric: Metric) -> Self {
        let (ringtap, peer, ratio) = Default::default();
        Self {
            metric,
            ringtap,
            peer,
            ratio,
        }
    }

    /// A line of the table.
    fn line(&self) -> String {
        let digits = self.metric.digits;
        let show = |sample: &Sample| {
            let (median, least, most) = (sample.median(), sample.least(), sample.most());
            format!("{median:>9.digits$} ({least:.digits$}–{most:.digits$})")
        };
        let name = self.metric.name;
        let ratio = if self.ratio.most() > 0.0 {
            format!("{:.3}", self.ratio.median())
        } else {
            "–".to_owned()
        };
        let verdict = match compare(&self.ringtap, &self.peer) {
            Verdict::Less => "less",
            Verdict::More => "more",
            Verdict::Equal => "equal",
            Verdict::Open => "no conclusion: the spread swallows the difference",
        };
        let (own, peer) = (show(&self.ringtap), show(&self.peer));
        format!("  {name:<16} {own:<28} {peer:<28} {ratio:>6}  {verdict}")
    }
}

impl Comparison {
    /// The table of a case.
    pub(super) fn print(&self) {
        println!("\n{}", self.case);
        let heads = ("", "ringtap: median (range)", self.peer, "ratio");
        println!(
            "  {:<16} {:<28} {:<28} {:>6}",
            heads.0, heads.1, heads.2, heads.3
        );
        for figure in &self.figures {
            println!("{}", figure.line());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Metric, Side, run};

    #[test]
    fn pairs_alternate_after_a_warm_up() {
        let mut order = Vec::new();
        let metrics = [Metric {
            name: "seconds",
            digits: 3,
        }];
        let (comparison, rows) = run("case", "peer", &metrics, 2, |side| {
            order.push(side);
            Ok(vec![if side == Side::Ringtap { 1.0 } else { 4.0 }])
        })
        .expect("measured");
        use Side::{Peer, Ringtap};
        assert_eq!(order, [Ringtap, Peer, Ringtap, Peer, Peer, Ringtap]);
        assert_eq!(rows.len(), 4);
        let figure = &comparison.figures[0];
        assert!((figure.ratio.median() - 0.25).abs() < 1e-9);
        assert!(figure.line().ends_with(" 0.250  less"), "{}", figure.line());
    }

    #[test]
    fn a_failed_run_is_an_error() {
        let result = run("case", "peer", &[], 1, |_| Err("broken".to_owned()));
        assert!(result.is_err());
    }
}
