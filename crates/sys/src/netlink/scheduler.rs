//! Counters of a device's packet schedulers (qdiscs).
//!
//! Source: `include/uapi/linux/{rtnetlink,pkt_sched,gen_stats}.h`.

use super::message::{Attributes, read_u32};
use super::traffic_control::{BODY_LEN, PLACE, RTM_GETQDISC, RTM_NEWQDISC, TCA_KIND, body};
use super::{Name, Netlink, Result};

const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// `TC_H_ROOT`: the parent of a device's outermost scheduler.
const ROOT: u32 = 0xffff_ffff;
/// Offsets in `struct gnet_stats_queue`.
const DROPS: usize = 8;
const OVERLIMITS: usize = 16;

/// A scheduler that all sent packets of a device pass, or the place of filters on received and sent ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// Index of the device.
    pub index: u32,
    /// Its kind, such as `fq_codel`, `mq` or `clsact`.
    pub kind: Name,
    /// Packets that it dropped, those of the schedulers below it included. The kernel counts in 32 bits.
    pub drops: u32,
    /// How often it held packets back to keep a rate. The kernel counts in 32 bits.
    pub overlimits: u32,
}

impl Netlink {
    /// Returns the outermost schedulers of all devices of the namespace, with their counters. Needs no
    /// privilege.
    ///
    /// # Errors
    /// The same as [`links`](Self::links).
    pub fn schedulers(&mut self) -> Result<Vec<Scheduler>> {
        let get = (RTM_GETQDISC, "RTM_GETQDISC");
        let is_outermost = |payload: &[u8]| {
            let parent = read_u32(payload, 12);
            parent == Some(ROOT) || parent == Some(PLACE)
        };
        let entries = self.table(get, &body(0, 0, 0, 0), RTM_NEWQDISC, is_outermost)?;
        entries.iter().map(|entry| parse(entry)).collect()
    }
}

fn parse(payload: &[u8]) -> Result<Scheduler> {
    let mut scheduler = Scheduler {
        index: read_u32(payload, 4).unwrap_or_default(),
        kind: Name::default(),
        drops: 0,
        overlimits: 0,
    };
    Attributes::after(payload, BODY_LEN, "tcmsg")?.each(|attribute| {
        match attribute.kind {
            TCA_KIND => scheduler.kind = Name::new(attribute.string()),
            TCA_STATS2 => attribute.nested().each(|counters| {
                if counters.kind == TCA_STATS_QUEUE {
                    let word = |at| read_u32(counters.value, at);
                    let missing = || counters.malformed("TCA_STATS_QUEUE", OVERLIMITS + 4);
                    scheduler.drops = word(DROPS).ok_or_else(missing)?;
                    scheduler.overlimits = word(OVERLIMITS).ok_or_else(missing)?;
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(scheduler)
}
