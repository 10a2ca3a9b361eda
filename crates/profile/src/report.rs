//! Measured values with their confidence: the result of a run, and its JSON format.
//!
//! A component's cost is the number of its samples times the time between two samples, divided by
//! the packets. Its range is Wilson's interval of its share of the samples, at 95 %. The
//! unexplained part is a value of its own. It consists of samples of functions without a rule, lost
//! samples, and busy time on the kernel's clock that no sample shows.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::attribute::Tally;
use crate::{COMPONENTS, Component, Error, Result, Trial};

/// The version of the JSON object.
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
    /// The lowest value at 95 % confidence, or the lowest measured value, in nanoseconds.
    pub low_ns: f64,
    /// The highest value, likewise.
    pub high_ns: f64,
}

impl Figure {
    /// Makes a value from nanoseconds.
    #[must_use]
    pub fn new(ns: f64, low_ns: f64, high_ns: f64, ticks_per_ns: f64) -> Self {
        Self {
            ns,
            cycles: ns * ticks_per_ns,
            low_ns,
            high_ns,
        }
    }

    /// Returns whether the ranges of both have nothing in common.
    pub(crate) fn is_apart(&self, other: &Self) -> bool {
        self.low_ns > other.high_ns || other.low_ns > self.high_ns
    }

    /// Returns the sum; the ranges are added up.
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

/// The source of a value.
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

/// A component's share of the cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The component.
    pub component: Component,
    /// Its cost; `None` if unknown.
    pub cost: Option<Figure>,
    /// Its share of the total; `None` if unknown.
    pub share: Option<f64>,
    /// The source of the value; `None` without a value.
    pub origin: Option<Origin>,
    /// The number of samples, if the value comes from samples.
    pub samples: Option<u64>,
}

/// The unexplained part of the cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unexplained {
    /// All of it, nanoseconds per packet.
    pub ns: f64,
    /// Its share of the total.
    pub share: f64,
    /// Samples of functions without a rule, in nanoseconds per packet.
    pub unnamed_ns: f64,
    /// Lost samples, in nanoseconds per packet.
    pub lost_ns: f64,
    /// Busy time on the kernel's clock that no sample shows, in nanoseconds per packet: the
    /// capture's share of it. If samples show more than the clock, it is negative and not part of
    /// the sum.
    pub clock_ns: Option<f64>,
}

/// The samples of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// `cycles` or `cpu-clock`.
    pub event: String,
    /// Nanoseconds between two samples of a processor.
    pub period_ns: f64,
    /// The time of a sample itself in nanoseconds, if it could be measured. It belongs to no
    /// component and is subtracted from the values.
    #[serde(default)]
    pub own_ns: Option<f64>,
    /// Samples by result.
    pub tally: Tally,
    /// Samples that were lost because the buffer was full.
    pub lost: u64,
    /// How often the kernel paused the samples.
    pub throttled: u64,
    /// The processors with samples of the capture: for each, the number of samples in the kernel
    /// and of the reader in user space.
    pub processors: Vec<Processor>,
    /// Whether call chains could be resolved to functions.
    pub has_symbols: bool,
    /// The most frequent innermost functions of each component's samples in the kernel, with their
    /// numbers of samples. `(program)` is the tap's own program, or code without a name.
    pub functions: Vec<(Component, Vec<(String, u64)>)>,
    /// The most frequent functions in the chains that have no rule in the table, with their counts.
    pub unnamed: Vec<(String, u64)>,
}

/// The samples of the capture on one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// Its number.
    pub cpu: u32,
    /// Samples of driver, stack and tap.
    pub kernel: u64,
    /// Samples of reader and application.
    pub reader: u64,
    /// Samples of a busy processor.
    pub busy: u64,
    /// All samples.
    pub all: u64,
}

/// The method of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// The samples, if there are any.
    pub sampling: Option<Sampling>,
    /// Ticks of the processor's clock in a nanosecond.
    pub ticks_per_ns: f64,
    /// Whether that clock has a constant rate; `None` if unknown.
    pub constant_rate: Option<bool>,
    /// Whether the application's code is identified by its address (otherwise by clock readings).
    pub application_by_address: bool,
    /// Values that this run cannot measure, with the reasons.
    pub cannot_tell: Vec<String>,
}

/// A capture that is cut short after a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// `hook`, `filter`, `timestamp`, `ring` (records of eight bytes) or `copy`. With engine
    /// packet, `none` (no capture) comes first, and the stamp is part of `ring`.
    pub stage: String,
    /// The cost of a packet: median, lowest and highest of the rounds. At the taps it comes from
    /// the kernel's statistics of the program, including their two clock readings. With engine
    /// packet it is the time of the thread that generates and receives.
    pub run: Figure,
    /// The additional cost over the stage before; `None` for the first.
    pub more: Option<Figure>,
    /// The number of measured rounds.
    pub rounds: u32,
    /// Packets in all of them.
    pub runs: u64,
    /// Packets that found no room in the ring and were not copied.
    #[serde(default)]
    pub lost: u64,
}

/// Rates beside the costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Packets on the interface per second.
    pub packets_per_second: f64,
    /// Interrupts of the interface per second; `None` if it has none of its own.
    pub interrupts_per_second: Option<f64>,
    /// Runs of the receive softirq per second, of all interfaces.
    pub receive_softirqs_per_second: Option<f64>,
    /// Packets per poll of a driver, averaged over polls that returned some; all interfaces.
    pub packets_per_poll: Option<f64>,
    /// System calls of the reader per packet.
    pub system_calls_per_packet: Option<f64>,
    /// Wake-ups of the reader per packet.
    pub wake_ups_per_packet: f64,
    /// Packets per block delivered to the reader, on average.
    pub packets_per_block: Option<f64>,
}

/// The reader's own measurements with the processor's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReaderClock {
    /// Nanoseconds per delivered packet between receiving a block and releasing it: reader and
    /// application.
    pub in_blocks_ns: f64,
    /// Processor time of the reader's thread in user space, from the kernel's accounting, in
    /// nanoseconds per packet on the interface.
    pub user_ns: f64,
    /// Processor time in the kernel, likewise.
    pub system_ns: f64,
}

/// Packets by their fate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packets {
    /// Packets on the interface, in the captured directions.
    pub interface: u64,
    /// Packets delivered to the application.
    pub captured: u64,
    /// Their captured bytes.
    pub captured_bytes: u64,
    /// Packets dropped in the ring; `None` if unknown.
    pub dropped_ring: Option<u64>,
    /// Packets dropped at the hook; `None` if unknown.
    pub dropped_hook: Option<u64>,
}

/// The settings of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The filter; empty for none.
    pub filter: String,
    /// The snaplen in bytes.
    pub snaplen: u32,
    /// Memory of the ring, in bytes.
    pub buffer: u64,
    /// The number of bytes to wait for before a delivery.
    pub min_to_copy: u32,
    /// The longest that a packet waits, in milliseconds.
    pub timeout_ms: u64,
    /// The clock that stamps: `fine`, `coarse` or `none`.
    pub precision: String,
    /// Whether the tap steals packets.
    pub steals: bool,
    /// Nanoseconds that the reader polls for packets before it sleeps.
    pub busy_poll_ns: u64,
    /// Nanoseconds of configured work that the application does on each packet.
    #[serde(default)]
    pub work_ns: u32,
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this object: 1.
    pub version: u32,
    /// The engine of the capture.
    pub engine: String,
    /// The hook where it captured.
    pub hook: String,
    /// The interface.
    pub device: String,
    /// Its driver; empty if unknown.
    pub driver: String,
    /// The source of the packets.
    pub traffic: String,
    /// The settings.
    pub settings: Settings,
    /// The method of the measurement.
    pub method: Method,
    /// The duration in seconds.
    pub seconds: f64,
    /// The packets.
    pub packets: Packets,
    /// The components, in the order of a packet's path.
    pub components: Vec<Part>,
    /// The unexplained part.
    pub unexplained: Unexplained,
    /// The sum of the components and the unexplained part.
    pub total: Figure,
    /// Rates beside the costs.
    pub rates: Rates,
    /// The steps of the tap's program, measured separately; empty if there is no program.
    pub steps: Vec<Step>,
    /// The reader's clock measurements.
    pub reader_clock: ReaderClock,
    /// The recommended action.
    pub advice: Vec<Advice>,
}

impl Report {
    /// Returns a component's cost in nanoseconds per packet, if known.
    #[must_use]
    pub fn ns(&self, component: Component) -> Option<f64> {
        self.part(component)?.cost.map(|cost| cost.ns)
    }

    /// Returns a component's share of the cost.
    pub(crate) fn part(&self, component: Component) -> Option<&Part> {
        let mut parts = self.components.iter();
        parts.find(|part| part.component == component)
    }
}

/// Reads the output of `ringtap profile --json`.
///
/// # Errors
/// Returns an error if the file cannot be read or has another format.
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
            expected: VERSION,
        });
    }
    Ok(found)
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The component's cost without the setting: median, lowest, highest of the runs.
    pub before: Figure,
    /// With it.
    pub after: Figure,
    /// The total without.
    pub total_before: Figure,
    /// The total with it.
    pub total_after: Figure,
    /// Packets a second that were delivered without: median, lowest, highest.
    pub delivered_before: [f64; 3],
    /// And with it.
    pub delivered_after: [f64; 3],
    /// Pairs of runs.
    pub pairs: usize,
    /// Whether the component's ranges lie apart; else nothing can be concluded.
    pub concludes: bool,
}

/// A piece of advice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// In words.
    pub text: String,
    /// The setting, if it can be tried.
    pub trial: Option<Trial>,
    /// How it is set: an option of `ringtap dump`, or a command.
    #[serde(default)]
    pub setting: Option<String>,
    /// The result, if it was tried.
    pub effect: Option<Effect>,
    /// The reason why it could not be tried, if it should have been.
    #[serde(default)]
    pub untried: Option<String>,
}

impl Advice {
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    pub(crate) fn setting(trial: Trial, text: impl Into<String>) -> Self {
        Self {
            trial: Some(trial),
            ..Self::words(text)
        }
    }
}

/// Returns Wilson's interval of a share: `count` of `all`, at 95 %.
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
    // The share lies between them, even if rounding says otherwise.
    (
        ((middle - half) / scale).clamp(0.0, share),
        ((middle + half) / scale).clamp(share, 1.0),
    )
}

/// The samples of a profile, as input of the computation.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    /// The samples.
    pub tally: &'a Tally,
    /// The number of lost samples.
    pub lost: u64,
    /// Nanoseconds between two samples of a processor.
    pub period_ns: f64,
    /// The time of a sample itself in nanoseconds.
    pub own_ns: f64,
    /// The number of packets during the samples.
    pub packets: u64,
    /// The time that processors were busy on the kernel's clock, in nanoseconds, if known.
    pub busy_ns: Option<f64>,
    /// Ticks in a nanosecond.
    pub ticks_per_ns: f64,
}

impl Sampled<'_> {
    /// Returns the components, the unexplained part, and the total.
    #[must_use]
    pub fn figures(&self) -> (Vec<Part>, Unexplained, Figure) {
        let tally = self.tally;
        // Without packets every cost is reported as unknown.
        let is_known = self.packets > 0;
        let per_sample = ratio(self.period_ns - self.own_ns, to_f64(self.packets));
        let ours = tally.explained() + tally.unexplained;
        let busy = tally.busy();
        // Lost samples are assumed to be distributed like the others, idle ones included.
        let share_of = |count: u64, all: u64| to_f64(count) / to_f64(all.max(1));
        let lost_ns = to_f64(self.lost) * share_of(ours, busy + tally.idle) * per_sample;
        let unnamed_ns = to_f64(tally.unexplained) * per_sample;
        // Time without samples cannot be attributed: the capture gets its share of it.
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
        // The total is as certain as the capture's share of all samples.
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

/// Converts a count to a factor. Counts here are far below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of samples and packets of seconds"
)]
#[must_use]
pub(crate) fn to_f64(count: u64) -> f64 {
    count as f64
}

/// Returns a share; 0 of 0 is 0.
#[must_use]
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Returns median, lowest and highest value; `None` without values.
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
            // Samples show 1000 periods of work; the clock shows 20 more.
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
        // The time of the samples themselves is no work of the capture.
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
        // If samples show more than the clock, the difference explains nothing.
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
