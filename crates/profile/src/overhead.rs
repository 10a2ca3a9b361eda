//! What a sample costs by itself: the processor is interrupted for it, and what that takes is not the work
//! of whoever was interrupted.
//!
//! A loop that does nothing but read the processor's clock is sampled, and sees for how long it was away.

use std::time::Duration;

use ringtap_sys::cycles::{Rate, ticks};
use ringtap_sys::perf::Sampler;

use crate::Result;
use crate::report::{spread, to_f64};

/// How long the loop runs.
const TIME: Duration = Duration::from_millis(40);
/// Two readings of the clock that follow each other are this close at most, in nanoseconds.
const CLOSE: f64 = 1_000.0;
/// So many interruptions are needed for their median to say something.
const FEWEST: usize = 20;

/// Nanoseconds that an interruption by the sampler takes: the median, for others interrupt as well. Nothing
/// where too few are seen. The samples are thrown away.
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
    // Where another has the processor most of the time, what is seen is the scheduler's doing.
    #[expect(clippy::cast_precision_loss, reason = "some thousand at most")]
    let enough = away.len() >= FEWEST && away.len() as f64 > expected / 2.0;
    let median = spread(&mut away).map(|(median, ..)| median);
    Ok(median.filter(|_| enough).map(|ns| ns.min(period_ns / 2.0)))
}
