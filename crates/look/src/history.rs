//! Traffic over time: steps of 1 s for 5 minutes, of 10 s for 6 hours, of 5 minutes for 30 days, each by
//! protocol and by application.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::view::Split;

const SECOND: u64 = 1_000_000_000;
/// Steps in seconds, and how many of them are kept.
const RINGS: [(u64, usize); 3] = [(1, 300), (10, 2160), (300, 8640)];
/// Protocols, and applications, of one step; those beyond are summed up as others.
const CLASSES: usize = 24;
/// The class of others.
pub(crate) const OTHERS: u16 = u16::MAX;

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, more: Self) {
        self.packets = self.packets.saturating_add(more.packets);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    #[serde(rename = "t")]
    total: Count,
    #[serde(rename = "l", default)]
    lost: u64,
    #[serde(rename = "p", default)]
    protocols: Vec<(u16, Count)>,
    #[serde(rename = "a", default)]
    applications: Vec<(u16, Count)>,
}

impl Step {
    fn add(&mut self, protocol: u16, application: u16, count: Count) {
        self.total.add(count);
        add_to(&mut self.protocols, protocol, count);
        add_to(&mut self.applications, application, count);
    }
}

fn add_to(classes: &mut Vec<(u16, Count)>, class: u16, count: Count) {
    let find = |classes: &[(u16, Count)], class| classes.iter().position(|(one, _)| *one == class);
    let class = match find(classes, class) {
        None if classes.len() >= CLASSES => OTHERS,
        _ => class,
    };
    match find(classes, class) {
        Some(at) => classes[at].1.add(count),
        None => classes.push((class, count)),
    }
}

/// Steps of one length, without gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ring {
    step_ns: u64,
    capacity: usize,
    /// When the first step begins.
    from_ns: u64,
    steps: VecDeque<Step>,
}

impl Ring {
    fn new((seconds, capacity): (u64, usize)) -> Self {
        Self {
            step_ns: seconds * SECOND,
            capacity,
            from_ns: 0,
            steps: VecDeque::new(),
        }
    }

    /// Returns the step of a time; none where it is from before all that are kept.
    fn step(&mut self, time_ns: u64) -> Option<&mut Step> {
        let begin = time_ns / self.step_ns * self.step_ns;
        if self.steps.is_empty() {
            self.from_ns = begin;
        }
        if begin < self.from_ns {
            self.begin_at(begin);
        }
        let at = usize::try_from(begin.checked_sub(self.from_ns)? / self.step_ns);
        let mut at = at.unwrap_or(usize::MAX);
        if at >= self.steps.len().saturating_add(self.capacity) {
            self.steps.clear();
            self.from_ns = begin;
            at = 0;
        }
        while self.steps.len() <= at {
            self.steps.push_back(Step::default());
        }
        while self.steps.len() > self.capacity {
            self.steps.pop_front();
            self.from_ns += self.step_ns;
            at = at.saturating_sub(1);
        }
        self.steps.get_mut(at)
    }

    /// Puts steps before the first one, where there is room for all of them.
    fn begin_at(&mut self, begin: u64) {
        let missing = usize::try_from((self.from_ns - begin) / self.step_ns);
        let missing = missing.unwrap_or(usize::MAX);
        if missing.saturating_add(self.steps.len()) <= self.capacity {
            self.from_ns = begin;
            for _ in 0..missing {
                self.steps.push_front(Step::default());
            }
        }
    }

    fn is_sound(&self, (seconds, capacity): (u64, usize)) -> bool {
        self.step_ns == seconds * SECOND
            && self.capacity == capacity
            && self.steps.len() <= capacity
            && self.from_ns.is_multiple_of(self.step_ns)
    }
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) class: u16,
    pub(crate) counts: Vec<Count>,
}

/// Lines over a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) step_ns: u64,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// The steps that are known, among those of the span.
    pub(crate) known: std::ops::Range<usize>,
    pub(crate) lines: Vec<Line>,
    pub(crate) lost: Vec<u64>,
}

/// All three rings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    rings: Vec<Ring>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            rings: RINGS.map(Ring::new).to_vec(),
        }
    }
}

impl History {
    pub(crate) fn add(&mut self, time_ns: u64, protocol: u16, application: u16, count: Count) {
        for ring in &mut self.rings {
            if let Some(step) = ring.step(time_ns) {
                step.add(protocol, application, count);
            }
        }
    }

    pub(crate) fn add_lost(&mut self, time_ns: u64, packets: u64) {
        for ring in &mut self.rings {
            if let Some(step) = ring.step(time_ns) {
                step.lost = step.lost.saturating_add(packets);
            }
        }
    }

    /// Lets time go on where nothing comes: steps without traffic are known to be so.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        for ring in &mut self.rings {
            let _ = ring.step(now_ns);
        }
    }

    /// Returns whether a history that was read from a file has the form of this version.
    pub(crate) fn is_sound(&self) -> bool {
        self.rings.len() == RINGS.len()
            && self
                .rings
                .iter()
                .zip(RINGS)
                .all(|(ring, form)| ring.is_sound(form))
    }

    /// Renumbers applications, of which a file may have known others.
    pub(crate) fn renumber(&mut self, number: impl Fn(u16) -> u16) {
        let steps = self.rings.iter_mut().flat_map(|ring| &mut ring.steps);
        for (class, _) in steps.flat_map(|step| &mut step.applications) {
            *class = number(*class);
        }
    }

    /// Returns the lines of a span, in the finest steps that are kept for all of it.
    pub(crate) fn lines(&self, by: Split, from_ns: u64, to_ns: u64) -> Lines {
        let covers = |ring: &&Ring| {
            let kept = ring.step_ns * ring.capacity as u64;
            let end = ring.from_ns + ring.step_ns * ring.steps.len() as u64;
            to_ns.saturating_sub(from_ns) <= kept && from_ns + kept >= end
        };
        let ring = self.rings.iter().find(covers).unwrap_or(&self.rings[2]);
        let first = from_ns / ring.step_ns;
        let last = (to_ns / ring.step_ns).min(first + ring.capacity as u64);
        let count = usize::try_from(last.saturating_sub(first) + 1).unwrap_or(1);
        let from_ns = first * ring.step_ns;
        let mut lines = Lines {
            step_ns: ring.step_ns,
            from_ns,
            to_ns: from_ns + count as u64 * ring.step_ns,
            known: ring.known(first, count),
            lines: Vec::new(),
            lost: vec![0; count],
        };
        for at in lines.known.clone() {
            let begin = from_ns + at as u64 * ring.step_ns;
            let index = usize::try_from((begin - ring.from_ns) / ring.step_ns).unwrap_or(0);
            let Some(step) = ring.steps.get(index) else {
                continue;
            };
            lines.lost[at] = step.lost;
            let total = [(0, step.total)];
            let classes = match by {
                Split::Total => &total[..],
                Split::Protocol => &step.protocols,
                Split::Application => &step.applications,
            };
            lines.add(at, count, classes);
        }
        let bytes = |line: &Line| line.counts.iter().map(|count| count.bytes).sum::<u64>();
        lines
            .lines
            .sort_by_cached_key(|line| std::cmp::Reverse(bytes(line)));
        lines
    }
}

impl Ring {
    /// Returns which of `count` steps from the number `first` on are kept.
    fn known(&self, first: u64, count: usize) -> std::ops::Range<usize> {
        let begin = self.from_ns / self.step_ns;
        let end = begin + self.steps.len() as u64;
        let at = |step: u64| {
            let at = usize::try_from(step.saturating_sub(first)).unwrap_or(usize::MAX);
            at.min(count)
        };
        at(begin)..at(end).max(at(begin))
    }
}

impl Lines {
    fn add(&mut self, at: usize, count: usize, classes: &[(u16, Count)]) {
        for (class, counted) in classes {
            let known = self.lines.iter().position(|line| line.class == *class);
            let line = known.unwrap_or_else(|| {
                self.lines.push(Line {
                    class: *class,
                    counts: vec![Count::default(); count],
                });
                self.lines.len() - 1
            });
            self.lines[line].counts[at].add(*counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 1_700_000_100 * SECOND;

    fn count(bytes: u64) -> Count {
        Count { packets: 1, bytes }
    }

    #[test]
    fn steps_are_as_fine_as_the_span_allows() {
        let mut history = History::default();
        for second in 0..4000 {
            history.add(BEGIN + second * SECOND, 6, 1, count(10));
        }
        let now = BEGIN + 3999 * SECOND;
        let minute = history.lines(Split::Total, now - 59 * SECOND, now);
        assert_eq!(minute.step_ns, SECOND);
        assert_eq!(minute.lines[0].counts, vec![count(10); 60]);
        let hour = history.lines(Split::Protocol, now - 3000 * SECOND, now);
        assert_eq!(hour.step_ns, 10 * SECOND);
        assert_eq!(hour.lines[0].class, 6);
        assert_eq!(hour.lines[0].counts[5].bytes, 100);
        let day = history.lines(Split::Application, now - 86_400 * SECOND, now);
        assert_eq!((day.step_ns, day.lines[0].class), (300 * SECOND, 1));
        let sum: u64 = day.lines[0].counts.iter().map(|count| count.bytes).sum();
        assert_eq!(sum, 40_000);
        assert!(day.known.start > 200, "before the start nothing is known");
    }

    #[test]
    fn time_may_go_back_a_little() {
        let mut history = History::default();
        history.add(BEGIN, 6, 1, count(1));
        history.add(BEGIN - 100 * SECOND, 6, 1, count(2));
        history.add(BEGIN - 1000 * SECOND, 6, 1, count(4));
        let sum = |from: u64| {
            let lines = history.lines(Split::Total, BEGIN - from * SECOND, BEGIN);
            let counts = lines.lines.iter().flat_map(|line| &line.counts);
            counts.map(|count| count.bytes).sum::<u64>()
        };
        assert_eq!((sum(299), sum(2000)), (3, 7));
    }

    #[test]
    fn classes_and_gaps_cost_no_memory() {
        let mut history = History::default();
        for class in 0..1000 {
            history.add(BEGIN, class, class, count(1));
        }
        let lines = history.lines(Split::Application, BEGIN, BEGIN);
        assert_eq!(lines.lines.len(), CLASSES + 1);
        assert_eq!(
            (lines.lines[0].class, lines.lines[0].counts[0].bytes),
            (OTHERS, 976)
        );
        history.add(BEGIN * 5, 6, 1, count(7));
        history.add(u64::MAX, 6, 1, count(7));
        history.add(BEGIN, 6, 1, count(7));
        assert!(history.rings.iter().all(|ring| ring.steps.len() == 1));
    }
}
