//! What came of sending.

use std::time::Duration;

use crate::{Departures, Lateness, Rejection, SendError};

/// Rejected packets that a report names; the others are counted.
pub(crate) const NAMED: usize = 16;

/// What a run did, counted where it happened.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Packets that the interface has taken.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets left out, because the interface never takes them.
    pub rejected: u64,
    /// The first of those.
    pub rejections: Vec<Rejected>,
    /// How often a packet met a full queue, and was tried again. The device counts each time as a
    /// packet that it dropped on sending.
    pub queue_full: u64,
    /// How often the socket's own memory was used up; nothing was dropped.
    pub no_room: u64,
    /// Packets taken that had not left when the run ended.
    pub pending: u64,
    /// Packets recorded with an earlier time than the one before; they were sent at once.
    pub backwards: u64,
    /// From the first packet to the last.
    pub elapsed: Duration,
    /// How late packets were.
    pub lateness: Lateness,
    /// When packets left, where stamps were asked for and they had due times.
    pub departures: Option<Departures>,
    /// Whether the waker ended the run.
    pub stopped: bool,
    /// What ended the run, and the index of the packet that it met, counted from 0 over all packets
    /// of the run. That packet and those behind it were not sent.
    pub error: Option<(u64, SendError)>,
}

/// A packet that the interface does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its index among the run's packets, from 0.
    pub index: u64,
    /// Its bytes.
    pub len: usize,
    /// Why.
    pub reason: Rejection,
}
