//! Figures with their confidence: what a run gives, and what is written as JSON.
//!
//! A component's cost is its samples times the time between two of them, over the packets; its range is
//! Wilson's interval of its share of the samples, at 95 %. What samples do not explain is a figure of its
//! own: samples of functions that no rule names, samples that were lost, and the difference between the
//! time that samples show and the time that the kernel's own clock says the processors were busy.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::attribute::Tally;
use crate::{COMPONENTS, Component, Error, Result};

/// The form of the JSON object.
pub const VERSION: u32 = 1;
/// Quantile of the normal distribution for 95 %.
const Z: f64 = 1.96;

/// A cost per packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Nanoseconds.
    pub ns: f64,
    /// The same in ticks of the processor's clock.
    pub cycles: f64,
    /// The lowest that it may be at 95 %, or the lowest that was measured; nanoseconds.
    pub low_ns: f64,
    /// The highest, likewise.
    pub high_ns: f64,
}

impl Figure {
    /// A figure from nanoseconds.
    #[must_use]
    pub fn new(ns: f64, low_ns: f64, high_ns: f64, ticks_per_ns: f64) -> Self {
        Self {
            ns,
            cycles: ns * ticks_per_ns,
            low_ns,
            high_ns,
        }
    }

    /// Both together, the ranges added up.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            ns: self.ns + other.ns,
            cycles: self.cycles + other.cycles,
            low_ns: self.low_ns + other.low_ns,
            high_ns: self.high_ns + other.high_ns,
        }
    }
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Samples.
    Samples,
    /// The difference between programs cut after one step and after the next.
    Differential,
    /// The processor time that the kernel charges to the reader.
    Accounting,
}

/// A component's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Which.
    pub component: Component,
    /// Its cost; nothing where it is not known.
    pub cost: Option<Figure>,
    /// Its share of the total; nothing where it is not known.
    pub share: Option<f64>,
    /// Where the figure comes from; nothing where there is none.
    pub origin: Option<Origin>,
    /// Samples, where it comes from samples.
    pub samples: Option<u64>,
}

/// What is not explained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unexplained {
    /// All of it, nanoseconds per packet.
    pub ns: f64,
    /// Its share of the total.
    pub share: f64,
    /// Samples of functions that no rule names, in nanoseconds per packet.
    pub unnamed_ns: f64,
    /// Samples that were lost.
    pub lost_ns: f64,
    /// Time that the kernel's clock says the processors were busy, and that no sample shows: the part of
    /// it that the capture has of all work. Negative where samples show more, and then not part of the
    /// sum.
    pub clock_ns: Option<f64>,
}

/// What samples were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// `cycles` or `cpu-clock`.
    pub event: String,
    /// Nanoseconds between two samples of a processor.
    pub period_ns: f64,
    /// Nanoseconds that a sample takes by itself, which are nobody's work and left out of the figures, if
    /// that could be measured.
    #[serde(default)]
    pub own_ns: Option<f64>,
    /// Samples by what they show.
    pub tally: Tally,
    /// Samples lost for want of room.
    pub lost: u64,
    /// How often the kernel paused the samples.
    pub throttled: u64,
    /// Where the work was done: for each processor with samples of the capture, how many of them were of
    /// packets in the kernel and how many of the reader in user space.
    pub processors: Vec<Processor>,
    /// Whether call chains were turned into functions.
    pub has_symbols: bool,
    /// The innermost functions of each component's samples in the kernel, with their samples: the most
    /// frequent. `(program)` is the tap's own program, or code without a name.
    pub functions: Vec<(Component, Vec<(String, u64)>)>,
    /// Functions in the chains that the table does not name, with how often they stood there: the most
    /// frequent.
    pub unnamed: Vec<(String, u64)>,
}

/// A processor's samples of the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// Its number.
    pub cpu: u32,
    /// Samples of driver, stack and tap.
    pub kernel: u64,
    /// Samples of reader and application.
    pub reader: u64,
    /// Samples of anything but waiting.
    pub busy: u64,
    /// All samples.
    pub all: u64,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// Samples; nothing where there are none.
    pub sampling: Option<Sampling>,
    /// Ticks of the processor's clock in a nanosecond.
    pub ticks_per_ns: f64,
    /// Whether that clock keeps its rate; nothing where that is not known.
    pub constant_rate: Option<bool>,
    /// Whether the application's code was told by its address (else by the clock's readings).
    pub application_by_address: bool,
    /// What this run can't tell, and why.
    pub cannot_tell: Vec<String>,
}

/// A capture that goes so far and no farther.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// `hook`, `filter`, `timestamp`, `ring` (records of eight bytes) or `copy`; with engine packet, `none`
    /// (no capture) comes first, and the stamp is in `ring`.
    pub stage: String,
    /// What a packet took. At the taps by the kernel's statistics of the program, the two readings of the
    /// clock that these cost included; with engine packet, of the thread that generates and receives.
    /// Median, lowest and highest of the rounds.
    pub run: Figure,
    /// What it took more than the stage before; nothing for the first.
    pub more: Option<Figure>,
    /// Rounds that were measured.
    pub rounds: u32,
    /// Packets in all of them.
    pub runs: u64,
    /// Packets that found no room in the ring: they were not copied.
    #[serde(default)]
    pub lost: u64,
}

/// Rates beside the costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Packets on the interface per second.
    pub packets_per_second: f64,
    /// Interrupts of the interface per second; nothing where it has none of its own.
    pub interrupts_per_second: Option<f64>,
    /// Runs of the receive softirq per second, of all interfaces.
    pub receive_softirqs_per_second: Option<f64>,
    /// Packets that a poll of a driver brought, in the mean of those that brought some; all interfaces.
    pub packets_per_poll: Option<f64>,
    /// System calls of the reader per packet.
    pub system_calls_per_packet: Option<f64>,
    /// Wake-ups of the reader per packet.
    pub wake_ups_per_packet: f64,
    /// Packets of a block that the reader was handed, in the mean.
    pub packets_per_block: Option<f64>,
}

/// What the reader's own readings of the processor's clock say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReaderClock {
    /// Nanoseconds per packet read between being given a block and giving it back: reader and
    /// application.
    pub in_blocks_ns: f64,
    /// Processor time of the reader's thread in user space by the kernel's accounts, in nanoseconds per
    /// packet on the interface.
    pub user_ns: f64,
    /// In the kernel, likewise.
    pub system_ns: f64,
}

/// Packets, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packets {
    /// On the interface, in the directions that the capture looks at.
    pub interface: u64,
    /// Handed to the application.
    pub captured: u64,
    /// Bytes of those that were captured.
    pub captured_bytes: u64,
    /// Lost in the ring; nothing where that is not known.
    pub dropped_ring: Option<u64>,
    /// Lost at the hook; nothing where that is not known.
    pub dropped_hook: Option<u64>,
}

/// The settings that a profile is of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The filter; empty for none.
    pub filter: String,
    /// The most that is captured of a packet, in bytes.
    pub snaplen: u32,
    /// Memory of the ring, in bytes.
    pub buffer: u64,
    /// Bytes that are worth a delivery.
    pub min_to_copy: u32,
    /// The longest that a packet waits, in milliseconds.
    pub timeout_ms: u64,
    /// The clock that stamps: `fine`, `coarse` or `none`.
    pub precision: String,
    /// Whether packets end at the tap.
    pub steals: bool,
    /// Nanoseconds that the reader looks for packets before it sleeps.
    pub busy_poll_ns: u64,
    /// Nanoseconds that the application works on each packet, as it was told to.
    #[serde(default)]
    pub work_ns: u32,
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The form of this object: 1.
    pub version: u32,
    /// The engine that captured.
    pub engine: String,
    /// Where it took the packets.
    pub hook: String,
    /// The interface.
    pub device: String,
    /// Its driver; empty where it does not say.
    pub driver: String,
    /// Where the packets came from.
    pub traffic: String,
    /// The settings.
    pub settings: Settings,
    /// How it was measured.
    pub method: Method,
    /// How long, in seconds.
    pub seconds: f64,
    /// The packets.
    pub packets: Packets,
    /// The components, in the order of a packet's way.
    pub components: Vec<Part>,
    /// What they do not explain.
    pub unexplained: Unexplained,
    /// Components and what is unexplained together.
    pub total: Figure,
    /// Rates beside the costs.
    pub rates: Rates,
    /// The steps of the tap's program, each measured alone; empty where there is none.
    pub steps: Vec<Step>,
    /// What the reader's clock says.
    pub reader_clock: ReaderClock,
    /// What to do about it.
    pub advice: Vec<crate::advice::Advice>,
}

impl Report {
    /// A component's cost in nanoseconds per packet, if it is known.
    #[must_use]
    pub fn ns(&self, component: Component) -> Option<f64> {
        let part = self
            .components
            .iter()
            .find(|part| part.component == component)?;
        part.cost.map(|cost| cost.ns)
    }
}

/// Reads what `ringtap profile --json` has written.
///
/// # Errors
/// The file can't be read, or holds something else.
pub fn read(path: &Path) -> Result<Vec<Report>> {
    let path = || path.to_owned();
    let text = std::fs::read(path()).map_err(|source| Error::Baseline {
        path: path(),
        source,
    })?;
    let found: Vec<Report> =
        serde_json::from_slice(&text).map_err(|source| Error::NotAProfile {
            path: path(),
            source,
        })?;
    if let Some(other) = found.iter().find(|report| report.version != VERSION) {
        return Err(Error::Version {
            path: path(),
            found: other.version,
        });
    }
    Ok(found)
}

/// Wilson's interval of a share: `count` of `all`, at 95 %.
#[must_use]
pub fn wilson(count: u64, all: u64) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (count, all) = (to_f64(count), to_f64(all));
    let share = count / all;
    let square = Z * Z;
    let middle = share + square / (2.0 * all);
    let half = Z * (share * (1.0 - share) / all + square / (4.0 * all * all)).sqrt();
    let scale = 1.0 + square / all;
    // The share is between them, also where rounding says otherwise.
    (
        ((middle - half) / scale).clamp(0.0, share),
        ((middle + half) / scale).clamp(share, 1.0),
    )
}

/// What samples say of packets.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    /// The samples.
    pub tally: &'a Tally,
    /// Samples lost.
    pub lost: u64,
    /// Nanoseconds between two samples of a processor.
    pub period_ns: f64,
    /// Nanoseconds that a sample takes by itself.
    pub own_ns: f64,
    /// Packets in the time.
    pub packets: u64,
    /// Time that processors were busy by the kernel's clock, in nanoseconds, if that is known.
    pub busy_ns: Option<f64>,
    /// Ticks in a nanosecond.
    pub ticks_per_ns: f64,
}

impl Sampled<'_> {
    /// The components, and what they do not explain.
    #[must_use]
    pub fn figures(&self) -> (Vec<Part>, Unexplained, Figure) {
        let tally = self.tally;
        // Of no packet nothing is known, which is told as such.
        let is_known = self.packets > 0;
        let per_sample = ratio(self.period_ns - self.own_ns, to_f64(self.packets));
        let ours = tally.explained() + tally.unexplained;
        let busy = tally.busy();
        // Lost samples are like those that were not, idle processors' among them.
        let share_of = |count: u64, all: u64| to_f64(count) / to_f64(all.max(1));
        let lost_ns = to_f64(self.lost) * share_of(ours, busy + tally.idle) * per_sample;
        let unnamed_ns = to_f64(tally.unexplained) * per_sample;
        // Of time that no sample shows nobody knows whose it was: the capture gets its part of it.
        let clock_ns = self.busy_ns.filter(|_| is_known).map(|busy_ns| {
            let missing = busy_ns - to_f64(busy + self.lost) * self.period_ns;
            missing * share_of(ours, busy) / to_f64(self.packets)
        });
        let unexplained_ns = unnamed_ns + lost_ns + clock_ns.unwrap_or_default().max(0.0);
        let explained_ns = to_f64(tally.explained()) * per_sample;
        let total_ns = explained_ns + unexplained_ns;
        let scale = to_f64(ours) * per_sample;
        let parts = COMPONENTS.map(|component| {
            let count = tally.components[component.index()];
            let ns = to_f64(count) * per_sample;
            let (low, high) = wilson(count, ours);
            Part {
                component,
                cost: is_known
                    .then(|| Figure::new(ns, low * scale, high * scale, self.ticks_per_ns)),
                share: is_known.then(|| ratio(ns, total_ns)),
                origin: Some(Origin::Samples),
                samples: Some(count),
            }
        });
        let unexplained = Unexplained {
            ns: unexplained_ns,
            share: ratio(unexplained_ns, total_ns),
            unnamed_ns,
            lost_ns,
            clock_ns,
        };
        // The total is as sure as the share of all samples that are the capture's.
        let (low, high) = wilson(ours, busy + tally.idle);
        let whole = to_f64(busy + tally.idle) * per_sample;
        let rest = total_ns - scale;
        let total = Figure::new(
            total_ns,
            low * whole + rest,
            high * whole + rest,
            self.ticks_per_ns,
        );
        (parts.into(), unexplained, total)
    }
}

/// A number as a factor. Counts here are far below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of samples and packets of seconds"
)]
#[must_use]
pub(crate) fn to_f64(count: u64) -> f64 {
    count as f64
}

/// A share; nothing of nothing is none of it.
#[must_use]
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Median, lowest and highest; nothing of nothing.
#[must_use]
pub(crate) fn spread(values: &mut [f64]) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let (first, last) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    };
    Some((median, first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_share() {
        let (low, high) = wilson(0, 1000);
        assert!(low == 0.0 && high > 0.003 && high < 0.004, "{high}");
        let (low, high) = wilson(500, 1000);
        assert!(
            (low - 0.469).abs() < 0.001 && (high - 0.531).abs() < 0.001,
            "{low} {high}"
        );
        assert_eq!(wilson(0, 0), (0.0, 1.0));
        for all in 1..3_000 {
            assert_eq!(wilson(0, all).0.to_bits(), 0, "{all}");
            assert_eq!(wilson(all, all).1.to_bits(), 1_f64.to_bits(), "{all}");
        }
    }

    #[test]
    fn shares_and_what_is_unexplained_make_one() {
        let mut tally = Tally::default();
        tally.components[Component::Driver.index()] = 600;
        tally.components[Component::Copy.index()] = 300;
        tally.unexplained = 50;
        tally.idle = 1000;
        tally.other = 50;
        let sampled = Sampled {
            tally: &tally,
            lost: 0,
            period_ns: 250_000.0,
            own_ns: 0.0,
            packets: 1_000_000,
            // Samples show 1000 periods of work; 20 more are on the clock.
            busy_ns: Some(1020.0 * 250_000.0),
            ticks_per_ns: 2.0,
        };
        let (parts, unexplained, total) = sampled.figures();
        let shares: f64 = parts.iter().filter_map(|part| part.share).sum();
        assert!((shares + unexplained.share - 1.0).abs() < 1e-9);
        let driver = parts[0].cost.expect("sampled");
        assert!((driver.ns - 150.0).abs() < 1e-9 && (driver.cycles - 300.0).abs() < 1e-9);
        assert!(driver.low_ns < 150.0 && 150.0 < driver.high_ns);
        assert!(
            (unexplained.ns - (12.5 + 4.75)).abs() < 1e-9,
            "{unexplained:?}"
        );
        assert!((total.ns - 242.25).abs() < 1e-9);
        // What samples take by themselves is no work of the capture.
        let (parts, unexplained, _) = Sampled {
            own_ns: 50_000.0,
            ..sampled
        }
        .figures();
        let driver = parts[0].cost.expect("sampled");
        assert!((driver.ns - 120.0).abs() < 1e-9, "{driver:?}");
        assert!((unexplained.clock_ns.expect("known") - 4.75).abs() < 1e-9);
        // Without packets there is no cost of one.
        let (parts, unexplained, total) = Sampled {
            packets: 0,
            ..sampled
        }
        .figures();
        assert!(parts.iter().all(|part| part.cost.is_none()));
        assert!(unexplained.clock_ns.is_none() && total.ns.abs() < 1e-9);
        // Samples that show more than the clock are no explanation of anything.
        let (_, unexplained, _) = Sampled {
            busy_ns: Some(0.0),
            ..sampled
        }
        .figures();
        assert!(
            (unexplained.ns - 12.5).abs() < 1e-9 && unexplained.clock_ns.is_some_and(|ns| ns < 0.0)
        );
    }

    #[test]
    fn medians() {
        assert_eq!(spread(&mut [3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(&mut [4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(&mut []), None);
    }
}
