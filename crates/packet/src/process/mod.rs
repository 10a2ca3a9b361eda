//! The process that a packet belongs to, as capture files record it beside the packet.
//!
//! A [`ProcessTag`] is what ringtap's program in the kernel writes for each packet of this host's sockets: 56
//! bytes, in the byte order of the machine that recorded them. `docs/reference/who.md` has the layout.

mod container;
mod table;

use std::fmt;

pub use container::{Container, ContainerNames, container_of};
pub use table::{ProcessDescription, ProcessTable};

/// The private enterprise number of the option and the block with ringtap's own data in pcapng files: the one
/// that is reserved for examples (RFC 5612), since ringtap has none.
pub const PROCESS_ENTERPRISE: u32 = 32_473;

/// Bytes of a [`ProcessTag`].
pub const PROCESS_TAG_BYTES: usize = 56;

/// Offsets in a tag. Programs in the kernel write the same layout.
pub mod layout {
    /// [`MAGIC`], [`VERSION`], the byte order (1 for big-endian), and how the process was found.
    pub const HEAD: usize = 0;
    /// The thread's number, 32 bits.
    pub const TID: usize = 4;
    /// The process's number, 32 bits.
    pub const PID: usize = 8;
    /// The user's number, 32 bits.
    pub const UID: usize = 12;
    /// When the process started, in hundredths of a second since boot, 64 bits.
    pub const START: usize = 16;
    /// The thread's name, with zeros at its end.
    pub const COMM: usize = 24;
    /// The number of the control group (version 2), 64 bits.
    pub const CGROUP: usize = 40;
    /// The inode number of the socket's network namespace, 32 bits.
    pub const NAMESPACE: usize = 48;
    /// The first byte.
    pub const MAGIC: u8 = b'P';
    /// The second byte.
    pub const VERSION: u8 = 1;
    /// In the fourth byte: the process used the socket while a program watched.
    pub const USED: u8 = 1;
    /// The process held the socket when the capture was opened, and has not used it since.
    pub const HELD: u8 = 2;
    /// The mask of both.
    pub const HOW: u8 = 0x0f;
    /// The packet requests a connection: the process is that of the listening socket.
    pub const LISTENS: u8 = 0x40;
    /// The packet was received, but only the sending socket is known.
    pub const SENDER: u8 = 0x80;
}

/// How the process of a packet was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The process was the last one to use the packet's socket.
    Used,
    /// The process held the socket when the capture was opened, and nobody has used it since.
    Held,
}

/// The facts about a packet's process that were recorded with the packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessTag<'a>(&'a [u8; PROCESS_TAG_BYTES]);

impl<'a> ProcessTag<'a> {
    /// Returns the tag at the start of `bytes`. `None` if it has another form.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let tag: &[u8; PROCESS_TAG_BYTES] = bytes.first_chunk()?;
        let [magic, version, order, _, ..] = *tag;
        (magic == layout::MAGIC && version == layout::VERSION && order < 2).then_some(Self(tag))
    }

    /// Returns the bytes of the tag.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8; PROCESS_TAG_BYTES] {
        self.0
    }

    /// Returns the process's number, as the initial namespace of processes numbers it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.word(layout::PID)
    }

    /// Returns the number of the thread that used the socket last.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.word(layout::TID)
    }

    /// Returns the effective user.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.word(layout::UID)
    }

    /// Returns when the process started, in hundredths of a second since boot: field 22 of `/proc/PID/stat`.
    /// With [`ProcessTag::pid`], it distinguishes all processes.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.long(layout::START)
    }

    /// Returns the name of the thread, at most 15 bytes.
    #[must_use]
    pub fn comm(&self) -> &'a [u8] {
        let (_, rest) = self.0.split_at(layout::COMM);
        let comm = &rest[..16];
        comm.split(|byte| *byte == 0).next().unwrap_or(comm)
    }

    /// Returns the number of the process's control group (version 2): the inode number of its folder.
    #[must_use]
    pub fn cgroup(&self) -> u64 {
        self.long(layout::CGROUP)
    }

    /// Returns the inode number of the socket's network namespace, that of `/proc/PID/ns/net`.
    #[must_use]
    pub fn namespace(&self) -> u32 {
        self.word(layout::NAMESPACE)
    }

    /// Returns how the process was found.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        match self.0[3] & layout::HOW {
            layout::HELD => Evidence::Held,
            _ => Evidence::Used,
        }
    }

    /// Returns whether the process is that of a listening socket, to which the packet requests a connection.
    #[must_use]
    pub fn listens(&self) -> bool {
        self.0[3] & layout::LISTENS != 0
    }

    /// Returns whether the packet was received, and the process is the one that sent it.
    #[must_use]
    pub fn is_sender(&self) -> bool {
        self.0[3] & layout::SENDER != 0
    }

    fn is_big(&self) -> bool {
        self.0[2] == 1
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = [self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]];
        if self.is_big() {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    fn long(&self, at: usize) -> u64 {
        let (first, second) = (u64::from(self.word(at)), u64::from(self.word(at + 4)));
        if self.is_big() {
            first << 32 | second
        } else {
            second << 32 | first
        }
    }
}

impl fmt::Debug for ProcessTag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessTag")
            .field("pid", &self.pid())
            .field("tid", &self.tid())
            .field("uid", &self.uid())
            .field("start", &self.start())
            .field("comm", &String::from_utf8_lossy(self.comm()))
            .field("cgroup", &self.cgroup())
            .field("namespace", &self.namespace())
            .field("evidence", &self.evidence())
            .finish()
    }
}

/// The facts of a tag, to be encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts<'a> {
    /// [`ProcessTag::pid`].
    pub pid: u32,
    /// [`ProcessTag::tid`].
    pub tid: u32,
    /// [`ProcessTag::uid`].
    pub uid: u32,
    /// [`ProcessTag::start`].
    pub start: u64,
    /// [`ProcessTag::comm`]; longer names are cut.
    pub comm: &'a [u8],
    /// [`ProcessTag::cgroup`].
    pub cgroup: u64,
    /// [`ProcessTag::namespace`].
    pub namespace: u32,
}

impl ProcessFacts<'_> {
    /// Returns the tag's bytes in this machine's byte order, for a process that holds a socket.
    #[must_use]
    pub fn encode(&self) -> [u8; PROCESS_TAG_BYTES] {
        let mut tag = [0; PROCESS_TAG_BYTES];
        let mut put = |at: usize, bytes: &[u8]| tag[at..at + bytes.len()].copy_from_slice(bytes);
        let big = u8::from(cfg!(target_endian = "big"));
        put(
            layout::HEAD,
            &[layout::MAGIC, layout::VERSION, big, layout::HELD],
        );
        put(layout::TID, &self.tid.to_ne_bytes());
        put(layout::PID, &self.pid.to_ne_bytes());
        put(layout::UID, &self.uid.to_ne_bytes());
        put(layout::START, &self.start.to_ne_bytes());
        put(layout::COMM, &self.comm[..self.comm.len().min(15)]);
        put(layout::CGROUP, &self.cgroup.to_ne_bytes());
        put(layout::NAMESPACE, &self.namespace.to_ne_bytes());
        tag
    }
}

/// The process of a packet, as its record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketProcess<'a> {
    /// The process's number (`epb_processid_threadid`).
    pub pid: u32,
    /// The thread's number; 0 if it is unknown.
    pub tid: u32,
    /// Everything else. `None` for files of other programs.
    pub tag: Option<ProcessTag<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back() {
        let facts = ProcessFacts {
            pid: 1234,
            tid: 1235,
            uid: 1000,
            start: 5_000_000_007,
            comm: b"a name that is too long",
            cgroup: 1 << 40 | 7,
            namespace: 4_026_531_840,
        };
        let bytes = facts.encode();
        let tag = ProcessTag::parse(&bytes).expect("a tag");
        assert_eq!((tag.pid(), tag.tid(), tag.uid()), (1234, 1235, 1000));
        assert_eq!((tag.start(), tag.cgroup()), (5_000_000_007, 1 << 40 | 7));
        assert_eq!(tag.comm(), b"a name that is ");
        assert_eq!(tag.namespace(), 4_026_531_840);
        assert_eq!(tag.evidence(), Evidence::Held);
        assert!(!tag.listens() && !tag.is_sender());
    }

    #[test]
    fn the_other_byte_order_is_read() {
        let mut bytes = [0; PROCESS_TAG_BYTES];
        bytes[..4].copy_from_slice(&[layout::MAGIC, layout::VERSION, 1, layout::USED]);
        bytes[layout::PID..layout::PID + 4].copy_from_slice(&77_u32.to_be_bytes());
        bytes[layout::START..layout::START + 8].copy_from_slice(&(1_u64 << 33).to_be_bytes());
        let tag = ProcessTag::parse(&bytes).expect("a tag");
        assert_eq!((tag.pid(), tag.start()), (77, 1 << 33));
        bytes[0] = b'?';
        assert_eq!(ProcessTag::parse(&bytes), None);
        assert_eq!(ProcessTag::parse(&bytes[..55]), None);
    }
}
