//! Reads a whole file into memory, for comparisons.

use std::io::Cursor;

use ringtap_savefile::{
    Interface, Item, Packet, PacketFlags, ReadError, ReadOptions, Reader, Timestamp, Visitor,
};

/// A packet that owns its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedPacket {
    pub(crate) timestamp: Timestamp,
    pub(crate) len: u32,
    pub(crate) interface: u32,
    pub(crate) flags: PacketFlags,
    pub(crate) data: Vec<u8>,
}

impl OwnedPacket {
    fn of(packet: Packet<'_>) -> Self {
        Self {
            timestamp: packet.timestamp,
            len: packet.len,
            interface: packet.interface,
            flags: packet.flags,
            data: packet.data.to_vec(),
        }
    }
}

/// The contents of a file, up to its end or the damage.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) packets: Vec<OwnedPacket>,
    /// Number of packets read, accepted or not.
    pub(crate) read: usize,
    /// Number of these packets that were delivered one by one.
    pub(crate) visited: usize,
    pub(crate) interfaces: Vec<Interface>,
    /// Descriptions of the items that are not runs.
    pub(crate) others: Vec<String>,
    pub(crate) error: Option<ReadError>,
}

impl Collected {
    /// Returns the error's text.
    pub(crate) fn error_text(&self) -> String {
        self.error
            .as_ref()
            .map_or_else(|| "no error".to_owned(), ToString::to_string)
    }
}

/// Reads bytes as a file.
pub(crate) fn read_bytes(bytes: &[u8]) -> Collected {
    read_with(bytes, &ReadOptions::default())
}

/// Reads bytes as a file with options.
pub(crate) fn read_with(bytes: &[u8], options: &ReadOptions) -> Collected {
    match Reader::new(Box::new(Cursor::new(bytes.to_vec())), "memory", options) {
        Ok(reader) => collect(reader),
        Err(error) => Collected {
            error: Some(error),
            ..Collected::default()
        },
    }
}

/// Reads all remaining items. After an error, the reader must have ended.
pub(crate) fn collect(reader: Reader) -> Collected {
    collect_in(reader, Way::Runs)
}

/// The way in which packets are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Runs,
    /// One by one, where the reader supports it.
    Visits,
}

impl Visitor for Collected {
    fn packet(&mut self, packet: &Packet<'_>) {
        self.packets.push(OwnedPacket::of(*packet));
    }
}

pub(crate) fn collect_in(mut reader: Reader, way: Way) -> Collected {
    let mut collected = Collected::default();
    loop {
        if way == Way::Visits {
            let before = collected.packets.len();
            let visited = reader.visit(&mut collected);
            assert_eq!(collected.packets.len() - before, visited);
            collected.read += visited;
            collected.visited += visited;
            if visited > 0 {
                continue;
            }
        }
        match reader.next() {
            Ok(Some(Item::Run(run))) => {
                assert!(!run.is_empty(), "runs have packets");
                let before = collected.packets.len();
                collected.packets.extend(run.packets().map(OwnedPacket::of));
                assert_eq!(collected.packets.len() - before, run.len());
                collected.read += run.len();
            }
            Ok(Some(Item::Filtered(filtered))) => {
                assert!(filtered.read() > 0, "there were packets");
                let before = collected.packets.len();
                let packets = filtered.packets().map(OwnedPacket::of);
                collected.packets.extend(packets);
                assert_eq!(collected.packets.len() - before, filtered.len());
                let by_runs: Vec<_> = filtered
                    .runs()
                    .flat_map(|run| run.packets())
                    .map(OwnedPacket::of)
                    .collect();
                assert!(by_runs == collected.packets[before..]);
                assert_eq!(filtered.packets_with_options().count(), by_runs.len());
                collected.read += filtered.read();
            }
            Ok(Some(other)) => collected.others.push(match other {
                Item::Section(section) => format!("section {:?}", section.byte_order),
                Item::Interface(index) => format!("interface {index}"),
                Item::Names(names) => format!("names {}", names.records().count()),
                Item::Statistics(statistics) => {
                    format!("statistics {:?}", statistics.counters().received)
                }
                Item::Other(block) => format!("block {:#x}", block.block_type()),
                _ => "unknown item".to_owned(),
            }),
            Ok(None) => break,
            Err(error) => {
                collected.error = Some(error);
                assert!(matches!(reader.next(), Ok(None)), "ended after an error");
                break;
            }
        }
    }
    collected.interfaces = reader.interfaces().to_vec();
    collected
}
