//! Limits on memory while reading a file, and other options for opening.

use crate::LinkType;
use crate::read::MapFile;

const MIB: usize = 1024 * 1024;

/// Room for options besides the data of the largest packet: libpcap limits pcapng blocks to the
/// largest packet plus this.
const OPTIONS_ROOM: usize = 131_072 + 32;

ringtap_packet::options! {
    /// Limits on memory, which no length field of a file overrides. Memory grows only as bytes arrive,
    /// so a length within the limits without data costs nothing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// Most captured bytes of a packet; by default the link type's [`LinkType::max_snaplen`].
        pub caplen: Option<u32>,
        /// Most bytes of a pcapng block (libpcap: 16 MiB); larger if a link type of the file allows
        /// packets that need it.
        pub block: usize,
        /// Most bytes of a pcapng section header block (libpcap: 1 MiB).
        pub section_header: usize,
        /// Most interfaces of a file, over all sections.
        pub interfaces: usize,
        /// Most bytes of interface and section blocks that are kept, over all sections.
        pub metadata: usize,
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            caplen: None,
            block: 16 * MIB,
            section_header: MIB,
            interfaces: 65_536,
            metadata: 64 * MIB,
        }
    }
}

impl Limits {
    /// Returns the most captured bytes of a packet of a link type.
    #[must_use]
    pub fn max_caplen(&self, link_type: LinkType) -> u32 {
        self.caplen.unwrap_or_else(|| link_type.max_snaplen())
    }

    /// Returns the most bytes of a block, given an interface of this link type.
    pub(crate) fn max_block(&self, link_type: LinkType) -> usize {
        let packet = usize::try_from(self.max_caplen(link_type)).unwrap_or(usize::MAX);
        self.block.max(packet.saturating_add(OPTIONS_ROOM))
    }
}

ringtap_packet::options! {
    /// The options for reading a file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReadOptions {
        /// Limits on memory.
        pub limits: Limits,
        /// Size of the read buffer in bytes, and so the most that one read call returns. It is small,
        /// so that it stays in the processor's cache; a larger record makes it grow.
        pub buffer: usize,
        /// Whether a second thread may read ahead in a large regular file that [`crate::Reader::open`]
        /// opens. The first [`crate::Reader::next`] that needs the thread starts it.
        pub read_ahead: bool,
        /// The function that maps a large regular file, if it is neither read ahead nor filtered. The
        /// bytes of a mapped file are not copied.
        pub map: Option<MapFile>,
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            buffer: DEFAULT_BUFFER,
            read_ahead: true,
            map: None,
        }
    }
}

/// Measured: reads of 64 KiB to 1 MiB differ by less than the noise; several buffers of this size
/// fit into the second-level cache of a processor.
const DEFAULT_BUFFER: usize = 256 * 1024;
