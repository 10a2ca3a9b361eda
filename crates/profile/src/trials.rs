//! Trials of a profile's advice: runs with and without a setting take turns, and the effect is reported with
//! its spread, or that the spread hides it. Settings of the host's interface are changed only if the caller
//! allows that, and restored. For generated traffic, another pair of interfaces is made.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringtap_capture::Precision;

use crate::interface::Changed;
use crate::report::{Effect, Figure, Report, spread, to_f64};
use crate::{Plan, Result, Trial};

/// The number of pairs of runs in a trial. With this many runs each, ranges differ by chance in 3 of 100
/// cases.
const PAIRS: usize = 4;
/// The longest of each.
const LONGEST: Duration = Duration::from_secs(1);

/// Applies the setting to the plan. Dropping the returned value restores the settings of the host's
/// interface.
fn apply(trial: Trial, plan: &mut Plan) -> Result<Option<Changed>> {
    let options = &mut plan.options;
    match trial {
        Trial::CoarseClock => options.precision = Precision::Coarse,
        Trial::Snaplen(bytes) => options.snaplen = bytes,
        Trial::MinToCopy(bytes) => options.min_to_copy = bytes,
        Trial::Buffer(bytes) => options.buffer = bytes,
        Trial::BusyPoll(micros) => {
            options.busy_poll = Some(Duration::from_micros(micros.into()));
        }
        Trial::Cpu(cpu) => options.cpus = vec![cpu],
        Trial::Rps(mask) => match &plan.device {
            Some(device) => return Changed::rps(device, mask).map(Some),
            None => plan.traffic.receive_mask = Some(mask),
        },
        Trial::NoGro => {
            let device = plan.device.as_deref().unwrap_or_default();
            return Changed::gro_off(device).map(Some);
        }
    }
    Ok(None)
}

/// Tries every setting that the report's advice names, by runs with and without it in turn. Settings of
/// the host's interface only with that consent.
///
/// If that is not possible, the advice gives the reason.
pub fn try_all(plan: &Plan, report: &mut Report, may_change_interface: bool, stop: &AtomicBool) {
    let engine = report.engine.clone();
    for advice in &mut report.advice {
        let Some(trial) = advice.trial else { continue };
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if trial.is_of_interface() && plan.device.is_some() && !may_change_interface {
            let reason = "it is a setting of the host's interface; --try-interface tries it";
            advice.untried = Some(reason.to_owned());
            continue;
        }
        match try_one(plan, &engine, trial, stop) {
            Ok(effect) if effect.is_some() => advice.effect = effect,
            Ok(_) => {
                advice.untried =
                    Some("no packets came in one of the runs, or it was ended".to_owned());
            }
            Err(error) => advice.untried = Some(error.to_string()),
        }
    }
}

fn try_one(plan: &Plan, engine: &str, trial: Trial, stop: &AtomicBool) -> Result<Option<Effect>> {
    let without = Plan {
        duration: plan.duration.min(LONGEST),
        steps: false,
        ..plan.clone()
    };
    let component = trial.component();
    // Component, total and delivered packets a second, without and with.
    let mut measured: [[Vec<f64>; 3]; 2] = Default::default();
    let mut ticks_per_ns = 1.0;
    for pair in 0..PAIRS {
        for side in [pair % 2, (pair + 1) % 2] {
            let mut plan = without.clone();
            let changed = if side == 1 {
                apply(trial, &mut plan)?
            } else {
                None
            };
            let report = crate::run(&plan, Some(engine), stop)?;
            drop(changed);
            ticks_per_ns = report.method.ticks_per_ns;
            let (Some(ns), true) = (report.ns(component), report.packets.interface > 0) else {
                return Ok(None);
            };
            let delivered = to_f64(report.packets.captured) / report.seconds.max(1e-9);
            measured[side][0].push(ns);
            measured[side][1].push(report.total.ns);
            measured[side][2].push(delivered);
        }
    }
    let [
        [Some(before), Some(total_before), Some(rate_before)],
        [Some(after), Some(total_after), Some(rate_after)],
    ] = measured.map(|side| side.map(|mut values| spread(&mut values)))
    else {
        return Ok(None);
    };
    let figure = |(median, low, high)| Figure::new(median, low, high, ticks_per_ns);
    let (before, after) = (figure(before), figure(after));
    Ok(Some(Effect {
        before,
        after,
        total_before: figure(total_before),
        total_after: figure(total_after),
        delivered_before: rate_before.into(),
        delivered_after: rate_after.into(),
        pairs: PAIRS,
        concludes: before.is_apart(&after),
    }))
}
