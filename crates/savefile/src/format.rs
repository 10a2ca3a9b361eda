//! The formats of capture files.

use std::fmt;

/// The format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// pcap: one link type, packet records.
    Pcap,
    /// pcapng: sections, interfaces and blocks.
    Pcapng,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
        })
    }
}
