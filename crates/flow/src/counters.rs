//! What a meter counts: every packet that it was given is in exactly one of them.

use std::ops::AddAssign;

use crate::record::EndReason;

/// Counters of a meter since its beginning.
///
/// `packets` = `sampled_out` + `not_ip` + `malformed` + `ip_packets`, and `ip_packets` is the sum over
/// all records once the meter has been flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that the meter was given.
    pub packets: u64,
    /// Packets that sampling left out.
    pub sampled_out: u64,
    /// Packets in which there is no IP, or none that was captured.
    pub not_ip: u64,
    /// Packets with a header of IP that is cut off or contradicts itself.
    pub malformed: u64,
    /// Packets that were metered.
    pub ip_packets: u64,
    /// Their bytes of layer 3.
    pub ip_bytes: u64,
    /// Fragments among them.
    pub fragments: u64,
    /// Fragments whose first one never came, or was forgotten: they are in flows without ports.
    pub fragments_alone: u64,
    /// Datagrams in fragments that were forgotten before their time, for want of room.
    pub fragments_evicted: u64,
    /// Records that were begun.
    pub flows: u64,
    /// Records that were handed over, by the reason for their end: [`EndReason`] less 1.
    pub ended: [u64; 5],
    /// Flows that are under way.
    pub active: u64,
    /// The most flows that were under way at a time.
    pub peak: u64,
}

impl Counters {
    pub(crate) fn ended(&mut self, reason: EndReason) {
        let counter = usize::from(reason.code()) - 1;
        if let Some(counter) = self.ended.get_mut(counter) {
            *counter += 1;
        }
    }

    /// Records that were handed over for that reason.
    #[must_use]
    pub fn ended_by(&self, reason: EndReason) -> u64 {
        self.ended[usize::from(reason.code() - 1)]
    }

    /// Records that were handed over.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// Flows that ended before their time because the cache was full.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.ended_by(EndReason::NoResources)
    }
}

/// Adds up what several meters counted; the greatest numbers of flows too, although they may have
/// been at different times.
impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.sampled_out += other.sampled_out;
        self.not_ip += other.not_ip;
        self.malformed += other.malformed;
        self.ip_packets += other.ip_packets;
        self.ip_bytes += other.ip_bytes;
        self.fragments += other.fragments;
        self.fragments_alone += other.fragments_alone;
        self.fragments_evicted += other.fragments_evicted;
        self.flows += other.flows;
        for (sum, more) in self.ended.iter_mut().zip(other.ended) {
            *sum += more;
        }
        self.active += other.active;
        self.peak += other.peak;
    }
}
