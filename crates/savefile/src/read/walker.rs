//! The parameters of a walk over packet records, as a value, so that any thread can walk.

use std::sync::Arc;

use crate::encoding::{Encoding, PcapEncoding, PcapngEncoding, Walk};
use crate::pcapng::InterfaceTable;
use crate::{ByteOrder, pcap, pcapng};

#[derive(Clone, Debug)]
pub(super) enum Walker {
    Pcap {
        encoding: PcapEncoding,
        max_caplen: u32,
    },
    Pcapng {
        byte_order: ByteOrder,
        interfaces: Arc<InterfaceTable>,
        max_block: usize,
    },
}

/// The reason why a walk ended; another thread may continue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The record continues after the available bytes.
    More,
    /// Not a valid packet record: the reader must handle it.
    Other,
}

impl Walker {
    /// Walks over the complete, valid records at the start of `bytes`; notes the start of each in
    /// `starts`, if given.
    pub(super) fn walk(&self, bytes: &[u8], starts: Option<&mut Vec<usize>>) -> Walk<Stop> {
        match self {
            Self::Pcap {
                encoding,
                max_caplen,
            } => {
                let walk = pcap::walk(bytes, encoding, *max_caplen, starts);
                walk.map_stop(|stop| match stop {
                    pcap::Stop::Header { .. } | pcap::Stop::Data { .. } => Stop::More,
                    pcap::Stop::Caplen { .. } => Stop::Other,
                })
            }
            Self::Pcapng {
                byte_order,
                interfaces,
                max_block,
            } => {
                let walk = pcapng::walk(bytes, *byte_order, interfaces, *max_block, starts);
                walk.map_stop(|stop| match stop {
                    pcapng::Stop::Header | pcapng::Stop::Block { .. } => Stop::More,
                    pcapng::Stop::Other | pcapng::Stop::Damaged(_) => Stop::Other,
                })
            }
        }
    }

    /// Returns the encoding of the records.
    pub(super) fn encoding(&self) -> Encoding<'_> {
        match self {
            Self::Pcap { encoding, .. } => Encoding::Pcap(*encoding),
            Self::Pcapng {
                byte_order,
                interfaces,
                ..
            } => Encoding::Pcapng(PcapngEncoding {
                byte_order: *byte_order,
                interfaces,
            }),
        }
    }
}
