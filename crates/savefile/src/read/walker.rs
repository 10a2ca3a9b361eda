//! What it takes to walk over the packet records at some place of a file: as a value, so that any
//! thread can do it.

use std::sync::Arc;

use crate::pcapng::InterfaceTable;
use crate::run::{Encoding, PcapEncoding, PcapngEncoding, Walk};
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

/// Why a walk ended that another thread may go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The record goes on behind the bytes that are there.
    More,
    /// Something that is no valid packet record: the reader's own business.
    Other,
}

impl Walker {
    /// Walks over the whole, valid records at the start of `bytes`, and notes in `starts`, where it
    /// is wanted, where each begins.
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

    /// How the records are encoded.
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
