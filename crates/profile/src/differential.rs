//! Measures a capture that is cut short after each of its steps, and the cost of a packet at each.
//!
//! The taps use the kernel's own statistics of programs. They cost two clock readings per run,
//! which are part of each stage's time and cancel in the differences. A packet socket's filter has
//! no such statistics. There the measure is the processor time of the generator's thread, which
//! also receives the packets that it sends. The stages take turns in short rounds, so that changes
//! of the traffic or the machine affect all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Filter, Next, Source, Stage, open};
use ringtap_sys::bpf::{Kernel, Program, Statistics};

use crate::report::{Figure, Step, spread, to_f64};
use crate::{Error, Result};

/// A stage: its name in reports, the last step of the capture (`None` for no capture), and the
/// snaplen, if it differs from that of the capture.
type Cut = (&'static str, Option<Stage>, Option<u32>);

/// Copying so few bytes costs next to nothing; fewer are copied by a call of the kernel.
const FEW: u32 = 8;
/// The stages of the taps. Records of a few bytes have every cost of a record except the copy's.
const OF_TAPS: [Cut; 5] = [
    ("hook", Some(Stage::Hook), None),
    ("filter", Some(Stage::Filter), None),
    ("timestamp", Some(Stage::Timestamp), None),
    ("ring", Some(Stage::Copy), Some(FEW)),
    ("copy", Some(Stage::Copy), None),
];
/// The stages of a packet socket. Its filter comes before the stamp, so the stamp is part of the
/// ring.
const OF_SOCKETS: [Cut; 5] = [
    ("none", None, None),
    ("hook", Some(Stage::Hook), None),
    ("filter", Some(Stage::Filter), None),
    ("ring", Some(Stage::Copy), Some(FEW)),
    ("copy", Some(Stage::Copy), None),
];

/// The least number of runs that a round must have to count.
const FEWEST_RUNS: u64 = 100;
/// The shortest time that a stage runs in a round.
const SHORTEST: Duration = Duration::from_millis(20);
/// The longest time that a reader of a stage sleeps.
const PATIENCE: Duration = Duration::from_millis(10);
/// The first part of a stage's time, which does not count: writing to a new ring, whose memory is
/// not in the caches, costs more than later.
const WARM_UP: f64 = 0.4;
/// The number of rounds.
pub const ROUNDS: u32 = 5;

/// Returns the processor time so far in nanoseconds, and the packets so far.
pub type Meter<'a> = &'a (dyn Fn() -> Result<(u64, u64)> + Sync);

/// The comparison to make.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    /// The device, with the engine: `tcx:eth0`.
    pub device: &'a str,
    /// Options of the capture.
    pub options: &'a CaptureOptions,
    /// The filter.
    pub filter: Option<&'a Filter>,
    /// The time for all stages together.
    pub duration: Duration,
    /// Ticks in a nanosecond.
    pub ticks_per_ns: f64,
    /// Measures time and packets if no program has statistics of its own.
    pub meter: Option<Meter<'a>>,
}

/// The measurements of a stage in a round.
#[derive(Clone, Copy, Default)]
struct Taken {
    nanos: u64,
    runs: u64,
    lost: u64,
}

impl Comparison<'_> {
    /// Measures all stages, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an error if the privilege for statistics is missing (`CAP_SYS_ADMIN`), or if a
    /// capture cannot be opened.
    pub fn run(&self, stop: &AtomicBool) -> Result<Vec<Step>> {
        // A thread of its own, because the capture's options place readers on processors.
        thread::scope(|scope| {
            let steps = thread::Builder::new().name("steps".to_owned());
            let steps = steps.spawn_scoped(scope, || self.take_turns(stop));
            let steps =
                steps.map_err(|source| ringtap_sys::Error::new("clone", "steps", source))?;
            steps.join().map_err(|_| Error::Thread("measuring"))?
        })
    }

    fn take_turns(&self, stop: &AtomicBool) -> Result<Vec<Step>> {
        self.options.place_thread()?;
        let (cuts, _statistics) = match self.meter {
            Some(_) => (OF_SOCKETS, None),
            None => (OF_TAPS, Some(Statistics::enable(&Kernel::running())?)),
        };
        let each = self.duration / (ROUNDS * 5);
        let each = each.max(SHORTEST);
        let mut rounds: [Vec<Option<f64>>; OF_TAPS.len()] = Default::default();
        let mut all = [Taken::default(); OF_TAPS.len()];
        for _ in 0..ROUNDS {
            for (number, &cut) in cuts.iter().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let taken = self.measure(cut, each)?;
                let has_counted = taken.runs >= FEWEST_RUNS;
                let cost = has_counted.then(|| to_f64(taken.nanos) / to_f64(taken.runs));
                rounds[number].push(cost);
                if has_counted {
                    all[number].runs += taken.runs;
                    all[number].lost += taken.lost;
                }
            }
        }
        Ok(self.steps(&cuts, &rounds, all))
    }

    fn measure(&self, (_, stage, snaplen): Cut, duration: Duration) -> Result<Taken> {
        let options = self
            .options
            .clone()
            .study(stage)
            .timeout(PATIENCE)
            .snaplen(self.options.snaplen.min(snaplen.unwrap_or(u32::MAX)));
        let source = stage.map(|_| open(self.device, &options, self.filter));
        let mut source = source.transpose()?;
        let programs = match (&source, self.meter) {
            (Some(source), None) => source.programs()?,
            _ => Vec::new(),
        };
        let now = || match self.meter {
            Some(meter) => meter(),
            None => total(&programs),
        };
        let warm_up = duration.mul_f64(WARM_UP);
        read_for(&mut source, warm_up)?;
        let lost_before = lost(&mut source)?;
        let before = now()?;
        read_for(&mut source, duration.saturating_sub(warm_up))?;
        let after = now()?;
        Ok(Taken {
            nanos: after.0 - before.0,
            runs: after.1 - before.1,
            lost: lost(&mut source)? - lost_before,
        })
    }

    fn steps(
        &self,
        cuts: &[Cut; OF_TAPS.len()],
        rounds: &[Vec<Option<f64>>; OF_TAPS.len()],
        all: [Taken; OF_TAPS.len()],
    ) -> Vec<Step> {
        let figure = |mut values: Vec<f64>| {
            let (median, low, high) = spread(&mut values)?;
            Some(Figure::new(median, low, high, self.ticks_per_ns))
        };
        let steps = cuts.iter().enumerate().filter_map(|(number, (name, ..))| {
            let more = number.checked_sub(1).and_then(|before| {
                let pairs = rounds[before].iter().zip(&rounds[number]);
                figure(
                    pairs
                        .filter_map(|(less, more)| Some((*more)? - (*less)?))
                        .collect(),
                )
            });
            let measured: Vec<f64> = rounds[number].iter().flatten().copied().collect();
            let counted = measured.len();
            Some(Step {
                stage: (*name).to_owned(),
                run: figure(measured)?,
                more,
                rounds: u32::try_from(counted).unwrap_or(u32::MAX),
                runs: all[number].runs,
                lost: all[number].lost,
            })
        });
        steps.collect()
    }
}

/// Reads for the duration; without a capture, sleeps.
fn read_for(source: &mut Option<Box<dyn Source>>, duration: Duration) -> Result<()> {
    let begin = Instant::now();
    while let Some(left) = duration.checked_sub(begin.elapsed()) {
        match source {
            Some(source) => read(source.as_mut())?,
            None => thread::sleep(left.min(PATIENCE)),
        }
    }
    Ok(())
}

/// Returns the number of packets that found no room so far.
fn lost(source: &mut Option<Box<dyn Source>>) -> Result<u64> {
    let stats = source.as_mut().map(|source| source.stats()).transpose()?;
    Ok(stats
        .and_then(|stats| stats.dropped.ring)
        .unwrap_or_default())
}

/// Reads the available packets, and waits for more.
fn read(source: &mut dyn Source) -> Result<()> {
    if let Next::Block(block) = source.next()? {
        let mut seen = 0_u64;
        for packet in &block {
            seen = seen.wrapping_add(crate::reader::application_sees(&packet, 0));
        }
        std::hint::black_box(seen);
    }
    Ok(())
}

/// Returns the nanoseconds and runs of all programs.
fn total(programs: &[Program]) -> Result<(u64, u64)> {
    let mut sum = (0, 0);
    for program in programs {
        let info = program.info()?;
        sum = (sum.0 + info.run_time_ns, sum.1 + info.run_count);
    }
    Ok(sum)
}
