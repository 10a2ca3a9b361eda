//! The values of `record --trigger`: a name and a condition.

use super::ValueError;

/// A trigger of a recorder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trigger {
    pub(crate) name: String,
    pub(crate) condition: Condition,
}

/// The condition of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// A packet matches the filter.
    Packet(String),
    /// More packets a second match the filter.
    Rate { filter: String, above: f64 },
    /// More packets are lost within a second.
    Loss { above: u64 },
    /// The flow meter raises an alert.
    Alert(Alarm),
}

/// The alerts of the flow meter that a trigger waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// A new host, or a scan.
    Any,
    /// A host that was not seen before.
    NewHost,
    /// A host that opens flows to more hosts and ports than this within a minute, most of which do not answer.
    Scan { above: u32 },
    /// A rate above this, in bits per second.
    Rate { above: u64 },
}

impl Alarm {
    /// The targets of a scan, unless a number is given.
    pub(crate) const SCAN: u32 = 100;
}

/// Parses the part of a trigger after `alert`: nothing, `new-host`, `scan`, `scan > 200` or `rate > 500M`.
fn alarm(text: &str) -> Option<Alarm> {
    let (kind, above) = match text.split_once('>') {
        Some((kind, above)) => (kind.trim(), Some(above.trim())),
        None => (text.trim(), None),
    };
    let scan = 1..=65_535;
    let rate = 1.0..=1e15;
    match (kind, above) {
        ("", None) => Some(Alarm::Any),
        ("new-host", None) => Some(Alarm::NewHost),
        ("scan", None) => Some(Alarm::Scan { above: Alarm::SCAN }),
        ("scan", Some(above)) => {
            let above = above.parse().ok().filter(|above| scan.contains(above))?;
            Some(Alarm::Scan { above })
        }
        ("rate", Some(above)) => {
            let above = scaled(above).filter(|above| rate.contains(above))?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is in a range of whole numbers"
            )]
            let above = above as u64;
            Some(Alarm::Rate { above })
        }
        _ => None,
    }
}

/// Parses a number with the suffix `k`, `M` or `G`, which are powers of 1000, or without.
fn scaled(text: &str) -> Option<f64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

/// Parses `NAME=FILTER`, `NAME=rate FILTER > 50k/s`, `NAME=loss > 0` or `NAME=alert scan`.
pub(crate) fn trigger(text: &str) -> Result<Trigger, ValueError> {
    let (name, condition) = text.split_once('=').ok_or(ValueError::Trigger)?;
    if name.is_empty() || name != ringtap_record::archive::safe(name) {
        return Err(ValueError::Trigger);
    }
    let condition = condition.trim();
    let condition = if let Some(rest) = condition.strip_prefix("rate ") {
        let (filter, above) = rest.rsplit_once('>').ok_or(ValueError::Trigger)?;
        let above = above.trim().strip_suffix("/s").ok_or(ValueError::Trigger)?;
        let above = scaled(above.trim_end()).filter(|above| (0.0..=1e12).contains(above));
        Condition::Rate {
            filter: filter.trim().to_owned(),
            above: above.ok_or(ValueError::Trigger)?,
        }
    } else if let Some(above) = condition.strip_prefix("loss").map(str::trim_start)
        && let Some(above) = above.strip_prefix('>')
    {
        let above = above.trim().parse().map_err(|_| ValueError::Trigger)?;
        Condition::Loss { above }
    } else if let Some(rest) = condition.strip_prefix("alert")
        && !rest.starts_with(|next: char| !next.is_ascii_whitespace())
    {
        Condition::Alert(alarm(rest).ok_or(ValueError::Trigger)?)
    } else {
        Condition::Packet(condition.to_owned())
    };
    Ok(Trigger {
        name: name.to_owned(),
        condition,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_have_a_name_and_a_condition() {
        let condition = |text| trigger(text).map(|trigger| trigger.condition);
        assert_eq!(
            condition("dns=port 53 and len > 512"),
            Ok(Condition::Packet("port 53 and len > 512".to_owned()))
        );
        let filter = "udp and len > 5".to_owned();
        let above = 50_000.0;
        assert_eq!(
            condition("a=rate udp and len > 5 > 50k/s"),
            Ok(Condition::Rate { filter, above })
        );
        assert_eq!(condition("a=loss > 3"), Ok(Condition::Loss { above: 3 }));
        for (text, alarm) in [
            ("a=alert", Alarm::Any),
            ("a=alert new-host", Alarm::NewHost),
            ("a= alert  scan ", Alarm::Scan { above: Alarm::SCAN }),
            ("a=alert scan>7", Alarm::Scan { above: 7 }),
            (
                "a=alert rate > 1.5G",
                Alarm::Rate {
                    above: 1_500_000_000,
                },
            ),
        ] {
            assert_eq!(condition(text), Ok(Condition::Alert(alarm)), "{text}");
        }
        for bad in [
            "x",
            "=udp",
            "a b=udp",
            "../a=udp",
            "a=rate udp",
            "a=rate udp > 5",
            "a=loss > x",
            "a=alert rate",
            "a=alert scan > 0",
            "a=alert loss",
        ] {
            assert_eq!(condition(bad), Err(ValueError::Trigger), "{bad}");
        }
    }
}
