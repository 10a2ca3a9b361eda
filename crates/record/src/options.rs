//! The options of a recording, and the counters that it gets while it runs.

use std::time::Duration;

use ringtap_savefile::{Codec, Format};

use crate::RotationPlan;
use crate::archive::Cut;

ringtap_packet::options! {
    /// Options of a [`crate::Recording`].
    #[derive(Clone, Debug)]
    pub struct RecordOptions {
        /// The files' format.
        pub format: Format,
        /// Whether a pcap file has nanoseconds. `None` takes the precision of the interface, or microseconds if
        /// the source is live.
        pub nano: Option<bool>,
        /// Whether the source is a live capture. Then a separate thread writes regular files, and pcapng files
        /// end with the capture's counters.
        pub live: bool,
        /// The snapshot length in the header, in bytes. `None` takes that of the interface.
        pub snaplen: Option<u32>,
        /// How files are compressed.
        pub codec: Option<Codec>,
        /// The number of threads that compress, at least one.
        pub workers: usize,
        /// The memory for data that waits to be compressed and written, in bytes ([`crate::automatic_memory`]).
        /// It is at least a few chunks of 2 MiB.
        pub memory: u64,
        /// The processors of the threads that compress and write. Empty for those of the starting thread.
        pub cpus: Vec<usize>,
        /// Whether packets are written to the file immediately, and not within a second.
        pub immediate: bool,
        /// Packets are on their way to the file after this time at the latest.
        pub flush: Duration,
        /// Whether the bytes that were on their way are then also on the disk (fdatasync(2)), so that a power
        /// cut does not lose them.
        pub durable: bool,
        /// The step in which space is reserved, in bytes. `None` takes one by the size of the files.
        pub reserve: Option<u64>,
        /// When one file ends and another starts. `None` for a single file.
        pub rotation: Option<RotationPlan>,
    }
}

impl Default for RecordOptions {
    /// Returns the defaults: one uncompressed pcap file of a source that is not live.
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
            flush: Duration::from_secs(1),
            durable: false,
            reserve: None,
            rotation: None,
        }
    }
}

/// The counters of a live capture since it started, in packets. `None` means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that matched the filter.
    pub received: Option<u64>,
    /// Packets that were dropped at the hook.
    pub hook: Option<u64>,
    /// Packets that sampling left out.
    pub sampling: Option<u64>,
    /// Packets that were dropped because the ring was full.
    pub ring: Option<u64>,
    /// Packets that the interface dropped.
    pub interface: Option<u64>,
    /// Packets that were left out of the files on purpose, and their bytes on the wire.
    pub cut: Cut,
}
