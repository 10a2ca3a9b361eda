//! The result of sending.

use std::time::Duration;

use crate::{Departures, Lateness, Rejection, SendError};

/// The maximum number of rejected packets that a report lists; the others are counted.
pub(crate) const NAMED: usize = 16;

/// The counters of a run.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Packets that the interface accepted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets left out, because the interface never accepts them.
    pub rejected: u64,
    /// The first of those.
    pub rejections: Vec<Rejected>,
    /// How often a packet met a full queue, and was tried again. The device counts each time as a dropped
    /// packet.
    pub queue_full: u64,
    /// How often the socket's own memory was full; nothing was dropped.
    pub no_room: u64,
    /// Accepted packets that had not left when the run ended.
    pub pending: u64,
    /// Packets with an earlier recorded time than the previous one; they were sent immediately.
    pub backwards: u64,
    /// The time from the first packet to the last.
    pub elapsed: Duration,
    /// How late packets were.
    pub lateness: Lateness,
    /// When packets left, if stamps were requested and packets had due times.
    pub departures: Option<Departures>,
    /// Whether the waker ended the run.
    pub stopped: bool,
    /// The error that ended the run, and the index of its packet, counted from 0 over all packets of the run.
    /// That packet and later ones were not sent.
    pub error: Option<(u64, SendError)>,
}

/// A packet that the interface rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its index among the run's packets, from 0.
    pub index: u64,
    /// Its bytes.
    pub len: usize,
    /// The reason.
    pub reason: Rejection,
}
