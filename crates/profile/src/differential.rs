//! The tap's program cut after each of its steps, and what a run of it then takes, by the kernel's own
//! statistics of programs.
//!
//! The stages take turns in short rounds, so that a change of the traffic or of the machine meets all of
//! them. The statistics cost two readings of a clock per run, which is in each stage's time and cancels in
//! the differences.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Filter, Next, Source, Stage, open};
use ringtap_sys::bpf::{Kernel, Program, Statistics};

use crate::Result;
use crate::report::{Figure, Step, spread, to_f64};

/// The stages with their names.
pub const STAGES: [(Stage, &str); 4] = [
    (Stage::Hook, "hook"),
    (Stage::Filter, "filter"),
    (Stage::Timestamp, "timestamp"),
    (Stage::Copy, "copy"),
];

/// Runs that a round must have to count.
const FEWEST_RUNS: u64 = 100;
/// The shortest that a stage runs in a round.
const SHORTEST: Duration = Duration::from_millis(20);
/// The longest that a reader of a stage sleeps.
const PATIENCE: Duration = Duration::from_millis(10);
/// Rounds.
pub const ROUNDS: u32 = 5;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The device, with the engine: `tcx:eth0`.
    pub device: &'a str,
    /// Options of the capture.
    pub options: &'a CaptureOptions,
    /// The filter.
    pub filter: Option<&'a Filter>,
    /// How long all of it may take.
    pub duration: Duration,
    /// Ticks in a nanosecond.
    pub ticks_per_ns: f64,
}

impl Comparison<'_> {
    /// Measures all stages, in the calling thread's network namespace.
    ///
    /// # Errors
    /// The right to have statistics is missing (`CAP_SYS_ADMIN`), or a capture can't be opened.
    pub fn run(&self, stop: &AtomicBool) -> Result<Vec<Step>> {
        let _statistics = Statistics::enable(&Kernel::running())?;
        let each = self.duration / (ROUNDS * 4);
        let each = each.max(SHORTEST);
        let mut rounds: [Vec<Option<f64>>; STAGES.len()] = Default::default();
        let mut runs = [0_u64; STAGES.len()];
        for _ in 0..ROUNDS {
            for (number, &(stage, _)) in STAGES.iter().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (time, count) = self.measure(stage, each)?;
                let has_counted = count >= FEWEST_RUNS;
                rounds[number].push(has_counted.then(|| to_f64(time) / to_f64(count)));
                runs[number] += if has_counted { count } else { 0 };
            }
        }
        Ok(self.steps(&rounds, runs))
    }

    /// Nanoseconds and runs of one stage.
    fn measure(&self, stage: Stage, duration: Duration) -> Result<(u64, u64)> {
        let options = CaptureOptions {
            study: Some(stage),
            timeout: PATIENCE,
            ..self.options.clone()
        };
        let mut source = open(self.device, &options, self.filter)?;
        let programs = source.programs()?;
        let before = total(&programs)?;
        let begin = Instant::now();
        while begin.elapsed() < duration {
            read(source.as_mut())?;
        }
        let after = total(&programs)?;
        Ok((after.0 - before.0, after.1 - before.1))
    }

    fn steps(&self, rounds: &[Vec<Option<f64>>], runs: [u64; STAGES.len()]) -> Vec<Step> {
        let figure = |mut values: Vec<f64>| {
            let (median, low, high) = spread(&mut values)?;
            Some(Figure::new(median, low, high, self.ticks_per_ns))
        };
        let all = STAGES.iter().enumerate().filter_map(|(number, (_, name))| {
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
                runs: runs[number],
            })
        });
        all.collect()
    }
}

/// Walks what there is, and waits for more.
fn read(source: &mut dyn Source) -> Result<()> {
    if let Next::Block(block) = source.next()? {
        let mut seen = 0_u64;
        for packet in &block {
            seen = seen.wrapping_add(crate::reader::application_sees(&packet));
        }
        std::hint::black_box(seen);
    }
    Ok(())
}

/// Nanoseconds and runs of all programs.
fn total(programs: &[Program]) -> Result<(u64, u64)> {
    let mut sum = (0, 0);
    for program in programs {
        let info = program.info()?;
        sum = (sum.0 + info.run_time_ns, sum.1 + info.run_count);
    }
    Ok(sum)
}
