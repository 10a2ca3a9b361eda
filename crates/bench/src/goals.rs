//! The goals of experiments, and whether a case reached them.

use crate::results::{Case, Contender};
use crate::sample::Verdict;

/// `read`: a third of tcpdump's time.
pub(crate) const READ: f64 = 1.0 / 3.0;
/// `search`: a twentieth of tcpdump's time.
pub(crate) const SEARCH: f64 = 1.0 / 20.0;
/// `flow`: a fifth of the peer's time.
pub(crate) const FLOW: f64 = 0.2;
/// `flow`: all fields add a seventh to the time.
pub(crate) const FIELDS: f64 = 1.15;
/// `flow`: a store adds a twentieth to the processor time.
pub(crate) const STORE: f64 = 1.05;
/// `libpcap`: tcpdump reads in two thirds of its time on Debian's library.
pub(crate) const LIBPCAP_READS: f64 = 1.0 / 1.5;
/// `libpcap`: starting and capturing take no more than on Debian's library.
pub(crate) const LIBPCAP_CAPTURES: f64 = 1.0;
/// `packzip`: this many times the pipe's share, where the pipe loses packets.
pub(crate) const PACKZIP: f64 = 1.5;

/// A goal, relative to the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// At most this fraction of the reference's value.
    AtMost(f64),
    /// At least this many times the reference's percentage, or 100 %.
    AtLeast(f64),
    /// No peer has more.
    NoPeerAbove,
}

impl Goal {
    /// Returns the goal that the table of a document names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "read" => Self::AtMost(READ),
            "search" => Self::AtMost(SEARCH),
            "flow" => Self::AtMost(FLOW),
            "libpcap reads" => Self::AtMost(LIBPCAP_READS),
            "libpcap captures" => Self::AtMost(LIBPCAP_CAPTURES),
            "packzip" => Self::AtLeast(PACKZIP),
            "no peer above" => Self::NoPeerAbove,
            _ => return None,
        })
    }

    /// Returns the goal as the head of a column.
    pub(crate) fn text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("goal: at most {bound:.2}"),
            Self::AtLeast(bound) => format!("goal: at least {bound:.1}, or everything"),
            Self::NoPeerAbove => "goal: no peer above".to_owned(),
        }
    }

    /// Judges whether a contender reached the goal: in every round, or in the median only.
    pub(crate) fn judge(self, case: &Case, who: usize, metric: usize) -> Option<&'static str> {
        let contender = case.contenders.get(who)?;
        let (worst, median, bound) = match self {
            Self::AtMost(bound) => {
                let ratio = case.ratio(who, metric)?;
                (-ratio.most(), -ratio.median(), -bound)
            }
            Self::AtLeast(bound) => {
                let ratio = contender.ratios.get(metric)?;
                let captured = contender.samples.get(metric)?;
                if captured.least() >= 100.0 && (ratio.is_empty() || ratio.least() < bound) {
                    return Some("everything");
                }
                let median = if captured.median() >= 100.0 {
                    bound
                } else {
                    ratio.median()
                };
                (ratio.least(), median, bound)
            }
            Self::NoPeerAbove => {
                let median = |contender: &Contender| Some(contender.samples.get(metric)?.median());
                let peers = case.contenders.iter().filter(|peer| !is_own(peer));
                let best = peers.filter_map(median).fold(0.0, f64::max);
                let own = median(contender)?;
                (own, own, best)
            }
        };
        // At most the peer's value: as for every ratio, the runs may show no difference.
        let is_open = self == Self::AtMost(1.0) && case.verdict(who, metric) == Some(Verdict::Open);
        Some(match (worst >= bound, median >= bound) {
            (true, _) => "reached",
            _ if is_open => "open",
            (false, true) => "in the median",
            (false, false) => "missed",
        })
    }
}

/// Returns whether a contender is ringtap, not a peer.
pub(crate) fn is_own(contender: &Contender) -> bool {
    contender.name.starts_with("ringtap")
}

#[cfg(test)]
mod tests {
    use super::Goal;
    use crate::results::sample_results;
    use crate::sample::Sample;

    #[test]
    fn the_worst_round_decides_and_nobody_has_more_than_everything() {
        let mut results = sample_results("live");
        // Ratios of 2.0 and 2.2 to 2.0 and 2.2.
        let case = &mut results.figures[0].cases[0];
        let judged = |case: &_, goal: Goal| goal.judge(case, 0, 0);
        assert_eq!(judged(case, Goal::AtMost(2.2)), Some("reached"));
        assert_eq!(judged(case, Goal::AtMost(2.15)), Some("in the median"));
        assert_eq!(judged(case, Goal::AtMost(1.9)), Some("missed"));
        assert_eq!(judged(case, Goal::AtLeast(1.5)), Some("reached"));
        assert_eq!(judged(case, Goal::AtLeast(2.05)), Some("in the median"));
        assert_eq!(judged(case, Goal::AtLeast(3.0)), Some("missed"));
        assert_eq!(judged(case, Goal::NoPeerAbove), Some("reached"));
        assert_eq!(
            Goal::NoPeerAbove.judge(case, 1, 0),
            Some("missed"),
            "the third has more"
        );
        assert_eq!(Goal::AtMost(1.0).judge(case, 1, 0), None, "the reference");
        assert_eq!(Goal::AtMost(1.0).judge(case, 2, 0), Some("open"));
        // Nobody has more than 100 %.
        for contender in &mut case.contenders[..2] {
            contender.samples[0] = Sample::default();
            contender.samples[0].push(100.0);
        }
        assert_eq!(judged(case, Goal::AtLeast(1.5)), Some("reached"));
        assert_eq!(judged(case, Goal::AtLeast(3.0)), Some("everything"));
        // Except in one round.
        let captured = &mut case.contenders[0].samples[0];
        captured.push(100.0);
        captured.push(98.9);
        assert_eq!(judged(case, Goal::AtLeast(3.0)), Some("in the median"));
    }
}
