//! Bounds on what a file may make the reader hold, and other choices at opening.

use crate::LinkType;
use crate::read::MapFile;

const MIB: usize = 1024 * 1024;

/// Room for options beside the data of the largest packet: libpcap bounds pcapng blocks by the
/// largest packet and so much.
const OPTIONS_ROOM: usize = 131_072 + 32;

/// Bounds on memory, which no length field of a file overrides. Memory grows as bytes arrive, so
/// that a length which is within the bounds but not backed by data costs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most captured bytes of a packet, where other than the link type's
    /// [`LinkType::max_snaplen`].
    pub caplen: Option<u32>,
    /// Most bytes of a pcapng block (libpcap: 16 MiB); larger where a link type of the file allows
    /// packets that need it.
    pub block: usize,
    /// Most bytes of a pcapng section header block (libpcap: 1 MiB).
    pub section_header: usize,
    /// Most interfaces of a file, over all sections.
    pub interfaces: usize,
    /// Most bytes of interface and section blocks that are kept, over all sections.
    pub metadata: usize,
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
    /// Most captured bytes of a packet of that link type.
    #[must_use]
    pub fn max_caplen(&self, link_type: LinkType) -> u32 {
        self.caplen.unwrap_or_else(|| link_type.max_snaplen())
    }

    /// Most bytes of a block once an interface of that link type is known.
    pub(crate) fn max_block(&self, link_type: LinkType) -> usize {
        let packet = usize::try_from(self.max_caplen(link_type)).unwrap_or(usize::MAX);
        self.block.max(packet.saturating_add(OPTIONS_ROOM))
    }
}

/// How a file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Bounds on memory.
    pub limits: Limits,
    /// Bytes of the read buffer, and so of one read call at most. It is kept small enough to stay
    /// in the processor's cache; a larger record makes it grow.
    pub buffer: usize,
    /// Whether [`crate::Reader::open`] may have a large regular file read ahead by a second
    /// thread, which is started by the first [`crate::Reader::next`] that needs it.
    pub read_ahead: bool,
    /// What maps a large regular file that is not read ahead and not filtered, if anything does: its
    /// bytes are not copied then.
    pub map: Option<MapFile>,
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

/// Measured: reads of 64 KiB to 1 MiB differ by less than the noise; several of this size fit the
/// second-level cache of a processor.
const DEFAULT_BUFFER: usize = 256 * 1024;
