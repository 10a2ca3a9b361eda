//! The cost of a sample itself: it interrupts the processor, and that time is no work of the
//! interrupted program.
//!
//! It is measured by sampling a loop that only reads the processor's clock, and so sees how long
//! each interruption takes.

use std::time::Duration;

use ringtap_sys::cycles::{Rate, ticks};
use ringtap_sys::perf::Sampler;

use crate::Result;
use crate::report::{spread, to_f64};

/// The duration of the loop.
const TIME: Duration = Duration::from_millis(40);
/// The longest time between two consecutive clock readings without an interruption, in nanoseconds.
const CLOSE: f64 = 1_000.0;
/// The least number of interruptions for a meaningful median.
const FEWEST: usize = 20;

/// Returns the nanoseconds of an interruption by the sampler, or `None` if there were too few. It
/// is the median, because other interrupts occur as well. The samples are discarded.
pub(crate) fn of_a_sample(
    sampler: &mut Sampler,
    rate: Rate,
    period_ns: f64,
) -> Result<Option<f64>> {
    sampler.start()?;
    let nanos = |ticks: u64| to_f64(ticks) / rate.per_nanosecond;
    let expected = TIME.as_secs_f64() * 1e9 / period_ns;
    let mut away = Vec::with_capacity(4096);
    let begun = ticks();
    let mut last = begun;
    while nanos(last.wrapping_sub(begun)) < TIME.as_secs_f64() * 1e9 {
        let now = ticks();
        let between = nanos(now.wrapping_sub(last));
        if between > CLOSE && away.len() < away.capacity() {
            away.push(between);
        }
        last = now;
    }
    sampler.stop()?;
    sampler.drain(|_| ());
    // If another program has the processor most of the time, the interruptions are the scheduler's.
    #[expect(clippy::cast_precision_loss, reason = "some thousand at most")]
    let enough = away.len() >= FEWEST && away.len() as f64 > expected / 2.0;
    let median = spread(&mut away).map(|(median, ..)| median);
    Ok(median.filter(|_| enough).map(|ns| ns.min(period_ns / 2.0)))
}
