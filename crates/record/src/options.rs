//! What a recording is told when it begins, and the counters that it is told while it goes on.

use ringtap_savefile::{Codec, Format};

use crate::RotationPlan;

/// Options of a [`crate::Recording`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordOptions {
    /// The files' format.
    pub format: Format,
    /// Whether a pcap file has nanoseconds; `None` if it has what its interface has, and microseconds if the
    /// source is live.
    pub nano: Option<bool>,
    /// Whether the source is a live capture: then regular files are written by a thread of their own, and
    /// pcapng files end with the capture's counters.
    pub live: bool,
    /// Bytes that packets were cut to, as the header states; `None` for what the interface states.
    pub snaplen: Option<u32>,
    /// How files are compressed.
    pub codec: Option<Codec>,
    /// Threads that compress; there is one at least.
    pub workers: usize,
    /// Memory for what waits to be compressed and written, in bytes ([`crate::automatic_memory`]); a few
    /// chunks of 2 MiB are taken at least.
    pub memory: u64,
    /// Processors of the threads that compress and write; empty for those of the thread that begins.
    pub cpus: Vec<usize>,
    /// Whether packets are written to the file at once, and not within a second.
    pub immediate: bool,
    /// When one file ends and another begins; `None` for a single file.
    pub rotation: Option<RotationPlan>,
}

impl Default for RecordOptions {
    /// One pcap file of a source that is not live, uncompressed.
    fn default() -> Self {
        Self {
            format: Format::Pcap,
            nano: None,
            live: false,
            snaplen: None,
            codec: None,
            workers: 1,
            memory: 0,
            cpus: Vec::new(),
            immediate: false,
            rotation: None,
        }
    }
}

/// The counters of a live capture since it began, in packets; `None` for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that the filter accepted.
    pub received: Option<u64>,
    /// Packets that were dropped at the hook.
    pub hook: Option<u64>,
    /// Packets that were left out by sampling.
    pub sampling: Option<u64>,
    /// Packets that were dropped because the ring was full.
    pub ring: Option<u64>,
    /// Packets that the interface dropped.
    pub interface: Option<u64>,
}
