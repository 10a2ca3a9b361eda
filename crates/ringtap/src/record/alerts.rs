//! Triggers by new alerts of the flow meter.

use std::sync::mpsc::Sender;

use ringtap_capture::{Interface, Timestamp};
use ringtap_look::AlertOptions;
use ringtap_look::api::Alert;

use super::error::RecorderError;
use super::trigger::Fired;
use crate::look::AlertMeter;
use crate::values::{Alarm, Condition, Trigger};

/// The triggers of a command line that wait for alerts.
#[derive(Clone, Debug, Default)]
pub(super) struct Alarms {
    triggers: Vec<(String, Alarm)>,
    options: Option<AlertOptions>,
}

impl Alarms {
    /// Finds them.
    ///
    /// # Errors
    /// Two of them have different thresholds of one kind: the meter has one.
    pub(super) fn of(triggers: &[Trigger]) -> Result<Self, RecorderError> {
        let mut alarms = Self::default();
        let (mut new_hosts, mut fan_out, mut rate) = (false, None, None);
        for trigger in triggers {
            let Condition::Alert(alarm) = trigger.condition else {
                continue;
            };
            let differs = |kind| RecorderError::Thresholds {
                name: trigger.name.clone(),
                kind,
            };
            match alarm {
                Alarm::Any | Alarm::NewHost => new_hosts = true,
                Alarm::Scan { above } if *fan_out.get_or_insert(above) != above => {
                    return Err(differs("scan"));
                }
                Alarm::Rate { above } if *rate.get_or_insert(above) != above => {
                    return Err(differs("rate"));
                }
                Alarm::Scan { .. } | Alarm::Rate { .. } => {}
            }
            alarms.triggers.push((trigger.name.clone(), alarm));
        }
        let is_any = |(_, alarm): &(String, Alarm)| *alarm == Alarm::Any;
        let scans = alarms.triggers.iter().any(is_any);
        alarms.options = (!alarms.triggers.is_empty()).then(|| AlertOptions {
            new_hosts,
            fan_out: fan_out.unwrap_or(if scans { Alarm::SCAN } else { 0 }),
            bits_per_s: rate,
        });
        Ok(alarms)
    }

    /// Starts the meter of a device. `None` if no trigger waits for alerts.
    ///
    /// # Errors
    /// Its thread cannot be started.
    pub(super) fn meter(
        &self,
        device: &str,
        interfaces: &[Interface],
        sender: Sender<Fired>,
    ) -> Result<Option<AlertMeter>, RecorderError> {
        let Some(options) = self.options else {
            return Ok(None);
        };
        let (alarms, device) = (self.clone(), device.to_owned());
        let raised = move |alert: &Alert| {
            for name in alarms.waiting(alert.kind) {
                // Without a receiver the run is over.
                let _ = sender.send(Fired {
                    name: name.to_owned(),
                    reason: format!("{device}: {}", alert.text),
                    at: time(alert.time_ms),
                });
            }
        };
        Ok(Some(AlertMeter::start(options, interfaces, raised)?))
    }

    /// Returns the names of the triggers that wait for this kind of alert.
    fn waiting(&self, kind: &str) -> impl Iterator<Item = &str> {
        let waits = move |alarm: &Alarm| match alarm {
            Alarm::Any => matches!(kind, "new-host" | "scan"),
            Alarm::NewHost => kind == "new-host",
            Alarm::Scan { .. } => kind == "scan",
            Alarm::Rate { .. } => kind == "rate",
        };
        let waiting = self.triggers.iter().filter(move |(_, alarm)| waits(alarm));
        waiting.map(|(name, _)| name.as_str())
    }
}

/// Returns a time from milliseconds since the epoch.
fn time(millis: u64) -> Timestamp {
    let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX);
    let nanos = u32::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
    Timestamp::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::trigger;

    fn alarms(texts: &[&str]) -> Result<Alarms, RecorderError> {
        let triggers = texts.iter().map(|text| trigger(text).expect("a trigger"));
        Alarms::of(&triggers.collect::<Vec<_>>())
    }

    #[test]
    fn the_meter_raises_only_alerts_that_a_trigger_waits_for() {
        assert_eq!(
            alarms(&["a=udp", "b=loss > 0"]).expect("valid").options,
            None
        );
        for (texts, options) in [
            (&["a=alert"][..], (true, 100, None)),
            (&["a=alert new-host"], (true, 0, None)),
            (&["a=alert scan > 5", "b=alert"], (true, 5, None)),
            (
                &["a=alert rate > 3k", "b=alert rate > 3k"],
                (false, 0, Some(3000)),
            ),
        ] {
            let found = alarms(texts).expect("valid").options.expect("options");
            let found = (found.new_hosts, found.fan_out, found.bits_per_s);
            assert_eq!(found, options, "{texts:?}");
        }
        let differ = alarms(&["a=alert scan > 5", "b=alert scan > 6"]);
        let reason = differ.expect_err("one threshold only").to_string();
        assert!(reason.contains("`alert scan`"), "{reason}");
    }

    #[test]
    fn each_trigger_gets_its_alerts() {
        let alarms = alarms(&["a=alert", "b=alert scan", "c=alert rate > 1"]).expect("valid");
        let waiting = |kind| alarms.waiting(kind).collect::<Vec<_>>();
        assert_eq!(waiting("scan"), ["a", "b"]);
        assert_eq!(waiting("new-host"), ["a"]);
        assert_eq!(waiting("rate"), ["c"]);
        assert!(waiting("loss").is_empty());
    }
}
