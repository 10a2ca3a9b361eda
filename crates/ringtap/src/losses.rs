//! Lost packets in JSON summaries: where each was lost, null if that is not known.

use ringtap_capture::{Dropped, WhoLosses, XdpLosses};
use serde::Serialize;

/// The object `dropped`. Its keys are part of the command line's contract.
#[derive(Serialize)]
pub(crate) struct JsonDropped {
    hook: Option<u64>,
    sampling: Option<u64>,
    ring: Option<u64>,
    interface: Option<u64>,
    /// Only if the source watches for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_hook: Option<u64>,
    application: Option<u64>,
}

/// The object `who`: the facts about processes that could not be recorded.
#[derive(Serialize)]
pub(crate) struct JsonWho {
    refused: u64,
    undescribed: u64,
}

impl From<WhoLosses> for JsonWho {
    fn from(who: WhoLosses) -> Self {
        Self {
            refused: who.refused,
            undescribed: who.undescribed,
        }
    }
}

/// The object `xdp`: packets lost at XDP, which cannot be captured.
#[derive(Serialize)]
pub(crate) struct JsonXdp {
    exceptions: u64,
    redirects: u64,
}

impl From<XdpLosses> for JsonXdp {
    fn from(xdp: XdpLosses) -> Self {
        Self {
            exceptions: xdp.exceptions,
            redirects: xdp.redirects,
        }
    }
}

impl JsonDropped {
    /// Returns the source's losses, with packets that sampling left out there or here.
    pub(crate) fn new(dropped: &Dropped, sampling: Option<u64>) -> Self {
        Self {
            hook: dropped.hook,
            sampling,
            ring: dropped.ring,
            interface: dropped.interface,
            before_hook: dropped.before_hook,
            application: dropped.application,
        }
    }
}

impl JsonDropped {
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
