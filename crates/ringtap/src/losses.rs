//! Lost packets in JSON summaries: where each was lost, null if that is not known. The same in words for the toolbar.

use ringtap_capture::{Dropped, WhoLosses, XdpLosses};
use serde::Deserialize;

use crate::object::object;

object! {
    /// The object `dropped`: the source's losses, with packets that sampling left out there or here. Its keys are part
    /// of the command line's contract.
    #[derive(Debug, Default, Deserialize)]
    pub(crate) struct JsonDropped(dropped: &Dropped, left_out: Option<u64>) {
        hook: Option<u64> = dropped.hook,
        sampling: Option<u64> = left_out,
        ring: Option<u64> = dropped.ring,
        interface: Option<u64> = dropped.interface,
        /// Only if the source watches for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        before_hook: Option<u64> = dropped.before_hook,
        application: Option<u64> = dropped.application,
    }
}

/// Returns the lost packets by place: those of the ring and the interface always, others if there are any.
pub(crate) fn by_place(dropped: &Dropped) -> String {
    let places = [
        ("ring", dropped.ring, true),
        ("interface", dropped.interface, true),
        ("hook", dropped.hook, false),
        ("before the hook", dropped.before_hook, false),
        ("application", dropped.application, false),
    ];
    let shown = places
        .iter()
        .filter(|(_, count, always)| *always || count.unwrap_or(0) > 0);
    let shown = shown.map(|(place, count, _)| match count {
        Some(count) => format!("{place} {count}"),
        None => format!("{place} unknown"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The counters in the JSON summary of another ringtap.
#[derive(Deserialize)]
pub(crate) struct ReadCounters {
    pub(crate) captured: u64,
    dropped: JsonDropped,
}

impl ReadCounters {
    /// Returns the lost packets by place.
    pub(crate) fn lost(&self) -> String {
        by_place(&Dropped {
            hook: self.dropped.hook,
            ring: self.dropped.ring,
            interface: self.dropped.interface,
            before_hook: self.dropped.before_hook,
            application: self.dropped.application,
            ..Dropped::default()
        })
    }
}

object! {
    /// The object `who`: the facts about processes that could not be recorded.
    pub(crate) struct JsonWho(who: WhoLosses) {
        refused: u64 = who.refused,
        undescribed: u64 = who.undescribed,
    }
}

object! {
    /// The object `xdp`: packets lost at XDP, which cannot be captured.
    pub(crate) struct JsonXdp(xdp: XdpLosses) {
        exceptions: u64 = xdp.exceptions,
        redirects: u64 = xdp.redirects,
    }
}

impl JsonDropped {
    /// Returns the losses by their keys, in alphabetical order.
    pub(crate) fn by_key(&self) -> [(&'static str, Option<u64>); 6] {
        [
            ("application", self.application),
            ("before_hook", self.before_hook),
            ("hook", self.hook),
            ("interface", self.interface),
            ("ring", self.ring),
            ("sampling", self.sampling),
        ]
    }

    /// Returns the losses in words, one for each place that has any.
    pub(crate) fn words(&self) -> Vec<String> {
        let places = [
            (self.hook, "dropped at the hook"),
            (self.sampling, "left out by sampling"),
            (self.ring, "dropped in the ring"),
            (self.interface, "dropped by the interface"),
            (self.before_hook, "taken by another program before the hook"),
            (self.application, "dropped by the application"),
        ];
        let lost = places.into_iter().filter_map(|(count, place)| {
            let count = count.filter(|count| *count > 0)?;
            Some(format!("{count} {place}"))
        });
        lost.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_have_places() {
        let dropped = Dropped {
            ring: Some(2),
            hook: Some(0),
            application: Some(1),
            ..Dropped::default()
        };
        let text = "ring 2, interface unknown, application 1";
        assert_eq!(by_place(&dropped), text);
        let json = serde_json::to_string(&JsonDropped::new(&dropped, None)).unwrap();
        let json = format!("{{\"engine\":\"packet\",\"captured\":7,\"dropped\":{json}}}");
        let counters: ReadCounters = serde_json::from_str(&json).unwrap();
        assert_eq!((counters.captured, counters.lost()), (7, text.to_owned()));
    }
}
