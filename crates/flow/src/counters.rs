//! The counters of a meter. Each packet that the meter gets is counted in exactly one of them.

use std::ops::AddAssign;

use crate::record::EndReason;

/// The counters of a meter since its beginning.
///
/// `packets` = `sampled_out` + `not_ip` + `malformed` + `ip_packets`, and `ip_packets` is the sum over
/// all records once the meter has been flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that the meter got.
    pub packets: u64,
    /// Packets that sampling left out.
    pub sampled_out: u64,
    /// Packets without IP, or whose IP part was not captured.
    pub not_ip: u64,
    /// Packets whose IP header is cut off or contradicts itself.
    pub malformed: u64,
    /// Packets that were metered.
    pub ip_packets: u64,
    /// Bytes of these packets at layer 3.
    pub ip_bytes: u64,
    /// Fragments among these packets.
    pub fragments: u64,
    /// Fragments whose first fragment never came or was forgotten. They are counted in flows without ports.
    pub fragments_alone: u64,
    /// Fragmented datagrams that were forgotten early because the table was full.
    pub fragments_evicted: u64,
    /// Records that were started.
    pub flows: u64,
    /// Records that ended, by the reason: [`EndReason`] less 1.
    pub ended: [u64; 5],
    /// Flows in the cache.
    pub active: u64,
    /// The largest number of flows that were in the cache at once.
    pub peak: u64,
    /// Payloads that were inspected.
    pub payloads: u64,
    /// Handshakes over several packets that were given up, because there were too many or one was too long.
    pub handshakes_dropped: u64,
    /// Addresses that answers of DNS have named.
    pub names: u64,
    /// Names that were dropped before their time to live had passed, because there were too many.
    pub names_evicted: u64,
    /// Flows that the active timeout had cut, and whose next records lack the fields of the first one: another
    /// cut flow took their place.
    pub cuts_dropped: u64,
    /// Packets whose process is left out, because flows had all places of the table of processes.
    pub processes_dropped: u64,
}

impl Counters {
    pub(crate) fn ended(&mut self, reason: EndReason) {
        let counter = usize::from(reason.code()) - 1;
        if let Some(counter) = self.ended.get_mut(counter) {
            *counter += 1;
        }
    }

    /// Returns the number of records that ended for this reason.
    #[must_use]
    pub fn ended_by(&self, reason: EndReason) -> u64 {
        self.ended[usize::from(reason.code() - 1)]
    }

    /// Returns the number of records that ended.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// Returns the number of flows that ended early because the cache was full.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.ended_by(EndReason::NoResources)
    }
}

/// Adds the counters of another meter. The largest numbers of flows are added too, although they may have
/// occurred at different times.
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
        self.payloads += other.payloads;
        self.handshakes_dropped += other.handshakes_dropped;
        self.names += other.names;
        self.names_evicted += other.names_evicted;
        self.cuts_dropped += other.cuts_dropped;
        self.processes_dropped += other.processes_dropped;
    }
}
