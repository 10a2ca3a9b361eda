//! Lines and JSON objects of any packets, of any link type, some after others that a printer remembers.
//!
//! Printed text ends a line, is bounded, and has no control characters.
#![no_main]

use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
use ringtap_print::{PrintOptions, Printer};

/// More than the longest line with a note.
const MAX_OUTPUT: usize = 80 << 10;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[high, low, choice], data)) = input.split_first_chunk::<3>() else {
        return;
    };
    let link_type = LinkType(u16::from_be_bytes([high & 1, low]));
    let mut options = PrintOptions::default();
    options.link_header = choice & 1 != 0;
    options.verbose = choice >> 1 & 3;
    options.quiet = choice & 8 != 0;
    options.json = choice & 16 != 0;
    let mut printer = Printer::new(options);
    // Two packets of one input may belong to one connection.
    let (first, second) = data.split_at(data.len() / 2);
    for data in [data, first, second] {
        let captured = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let packet = Packet {
            timestamp: Timestamp::new(1, 2),
            len: captured << (choice >> 6),
            interface: 0,
            flags: PacketFlags(0),
            data,
            process: None,
        };
        let mut out = Vec::new();
        let printed = printer.print(&mut out, &packet, link_type, None);
        assert!(printed.is_ok() && out.len() <= MAX_OUTPUT);
        assert_eq!(out.last(), Some(&b'\n'));
        let is_control =
            |byte: &u8| *byte < 0x20 && *byte != b'\n' && *byte != b'\t' || *byte == 0x7f;
        assert!(!out.iter().any(is_control));
    }
});
