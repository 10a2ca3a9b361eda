//! Counters of received and lost packets: `pcap_stats`.

use std::ffi::{c_int, c_uint};

use ringtap_capture::Stats;

use crate::boundary::export;
use crate::handle::{Kind, Pcap, lock};
use crate::state::live::Live;
use crate::types::{PcapStat, code};

/// Returns the counters of a live capture. If the engine reports them only between blocks, a
/// callback gets those of the last call.
pub(crate) fn of(handle: &Pcap, live: &Live) -> Result<Stats, String> {
    let stats = match &live.companion {
        Some(companion) => companion.stats(),
        None => {
            let Some(mut guard) = handle.try_reading() else {
                return Ok(*lock(&live.last));
            };
            let Some(reading) = &mut *guard else {
                return Ok(Stats::default());
            };
            reading.set_aside();
            reading.borrowed.source().stats()
        }
    };
    let stats = stats.map_err(|error| error.to_string())?;
    *lock(&live.last) = stats;
    Ok(stats)
}

/// Returns the lower 32 bits, because the structure has no room for more; 0 if the count is
/// unknown.
pub(crate) fn narrow(count: Option<u64>) -> c_uint {
    let [a, b, c, d, ..] = count.unwrap_or(0).to_le_bytes();
    c_uint::from_le_bytes([a, b, c, d])
}

impl From<Stats> for PcapStat {
    fn from(stats: Stats) -> Self {
        let lost = [stats.dropped.hook, stats.dropped.ring];
        let lost = lost.into_iter().flatten().fold(0, u64::saturating_add);
        Self {
            ps_recv: narrow(stats.received),
            ps_drop: narrow(Some(lost)),
            ps_ifdrop: narrow(stats.dropped.interface),
        }
    }
}

/// Returns the handle's counters, or sets a message and returns a code.
pub(crate) fn ask(handle: &Pcap) -> Result<Stats, c_int> {
    let opened = handle.activated()?;
    match &opened.kind {
        Kind::Dead => Err(handle.fail("Statistics aren't available from a pcap_open_dead pcap_t")),
        Kind::Offline(_) => Err(handle.fail("Statistics aren't available from savefiles")),
        Kind::Live(live) => of(handle, live).map_err(|message| handle.fail(message)),
    }
}

export! {
    /// Returns the packets received and lost since the capture was opened.
    fn pcap_stats(handle: Option<&Pcap>, stats: Option<&mut PcapStat>) -> c_int {
        let (Some(handle), Some(stats)) = (handle, stats) else {
            return code::ERROR;
        };
        match ask(handle) {
            Ok(asked) => {
                *stats = asked.into();
                0
            }
            Err(code) => code,
        }
    } else code::ERROR;
}

#[cfg(test)]
mod tests {
    use ringtap_capture::Dropped;

    use super::*;

    #[test]
    fn counters_are_narrowed() {
        let stats = Stats {
            received: Some((1 << 32) + 5),
            dropped: Dropped {
                hook: Some(1),
                ring: Some(2),
                interface: None,
                ..Dropped::default()
            },
            ..Stats::default()
        };
        let expected = PcapStat {
            ps_recv: 5,
            ps_drop: 3,
            ps_ifdrop: 0,
        };
        assert_eq!(PcapStat::from(stats), expected);
    }
}
