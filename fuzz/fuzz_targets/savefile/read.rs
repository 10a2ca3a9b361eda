//! Reads any bytes as a capture file and checks what holds for each item.

use std::io::Cursor;

use ringtap_savefile::{
    Interface, Item, Options, Packet, PacketFlags, PacketRun, ReadOptions, Reader, Timestamp,
};

/// Everything that a file gave.
#[derive(Debug, PartialEq)]
pub(crate) struct Contents {
    pub(crate) packets: Vec<OwnedPacket>,
    pub(crate) interfaces: Vec<Interface>,
    /// The error's place and text.
    pub(crate) error: Option<(u64, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnedPacket {
    pub(crate) timestamp: Timestamp,
    pub(crate) len: u32,
    pub(crate) interface: u32,
    pub(crate) flags: PacketFlags,
    pub(crate) data: Vec<u8>,
}

pub(crate) fn open(bytes: &[u8], buffer: usize) -> Result<Reader, (u64, String)> {
    let mut options = ReadOptions::default();
    options.buffer = buffer;
    Reader::new(Box::new(Cursor::new(bytes.to_vec())), "fuzz", &options)
        .map_err(|error| (error.offset(), error.to_string()))
}

pub(crate) fn read(bytes: &[u8], buffer: usize) -> Contents {
    let mut contents = Contents {
        packets: Vec::new(),
        interfaces: Vec::new(),
        error: None,
    };
    let mut reader = match open(bytes, buffer) {
        Ok(reader) => reader,
        Err(error) => {
            contents.error = Some(error);
            return contents;
        }
    };
    loop {
        let interfaces = reader.interfaces().len();
        match reader.next() {
            Ok(Some(item)) => take(item, interfaces, &mut contents.packets),
            Ok(None) => break,
            Err(error) => {
                contents.error = Some((error.offset(), error.to_string()));
                assert!(matches!(reader.next(), Ok(None)), "ended after an error");
                break;
            }
        }
    }
    contents.interfaces = reader.interfaces().to_vec();
    contents
}

fn take(item: Item<'_>, interfaces: usize, packets: &mut Vec<OwnedPacket>) {
    match item {
        Item::Run(run) => take_run(&run, interfaces, packets),
        Item::Names(names) => {
            let records = names.records().count();
            assert!(records <= names.block().bytes().len());
            walk(&names.options());
        }
        Item::Statistics(statistics) => {
            assert!((statistics.counters().interface as usize) < interfaces);
            walk(&statistics.options());
        }
        Item::Other(block) => assert!(block.body().len() + 12 == block.bytes().len()),
        _ => {}
    }
}

fn take_run(run: &PacketRun<'_>, interfaces: usize, packets: &mut Vec<OwnedPacket>) {
    assert!(!run.is_empty());
    let range = run.bytes().as_ptr_range();
    let before = packets.len();
    for packet in run.packets() {
        let data = packet.data.as_ptr_range();
        assert!(range.start <= data.start && data.end <= range.end);
        assert!(packet.data.len() <= run.max_caplen() as usize);
        assert!((packet.interface as usize) < interfaces);
        packets.push(own(&packet));
    }
    assert_eq!(
        packets.len() - before,
        run.len(),
        "a run has the packets that it counts"
    );
    let mut with_options = packets[before..].iter();
    for (packet, options) in run.packets_with_options() {
        assert_eq!(Some(&own(&packet)), with_options.next());
        walk(&options);
    }
    let folded = run.packets().fold(0, |count, _| count + 1);
    assert_eq!(folded, run.len());
}

pub(crate) fn own(packet: &Packet<'_>) -> OwnedPacket {
    OwnedPacket {
        timestamp: packet.timestamp,
        len: packet.len,
        interface: packet.interface,
        flags: packet.flags,
        data: packet.data.to_vec(),
    }
}

fn walk(options: &Options<'_>) {
    for option in options {
        assert!(option.value.len() <= usize::from(u16::MAX));
    }
    assert!(options.comments().all(|comment| comment.len() < 1 << 20));
    let _ = options.packet_drop_count();
}
