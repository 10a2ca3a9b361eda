//! Golden lines, truncation at every byte, and random damage.
//!
//! The cases are in `testdata/*.txt`: packets made for these tests, and the expected lines. A case
//! is a paragraph of `key: value` lines: `link` (LINKTYPE_ number), `options` (letters of the
//! command line, or `json`), `packet` (hexadecimal; several are printed by one printer), optionally
//! `len` (length on the wire), and one `line` per line of output.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use ringtap_packet::{DropNote, LinkType, Packet, PacketFlags, Timestamp};

use super::{BytesDump, PrintOptions, Printer, TimestampFormat};

/// Longest output of one packet without a dump: the line's bound and its line feed.
const MAX_OUTPUT: usize = 64 * 1024 + 1;

#[derive(Debug, Default)]
struct Case {
    place: String,
    link: u16,
    options: String,
    packets: Vec<Vec<u8>>,
    len: Option<u32>,
    lines: Vec<String>,
}

fn options(text: &str) -> PrintOptions {
    let mut options = PrintOptions {
        timestamps: TimestampFormat::None,
        ..PrintOptions::default()
    };
    let (mut hex, mut hex_ascii, mut ascii) = (0, 0, 0);
    if text == "json" {
        options.json = true;
        return options;
    }
    for letter in text.chars() {
        match letter {
            'e' => options.link_header = true,
            'v' => options.verbose += 1,
            'q' => options.quiet = true,
            'S' => options.absolute_seq = true,
            'K' => options.skip_checksums = true,
            '#' => options.number = true,
            'x' => hex += 1,
            'X' => hex_ascii += 1,
            'A' => ascii += 1,
            '-' | ' ' => {}
            other => panic!("option {other} in a case"),
        }
    }
    options.dump = BytesDump::from_counts(hex, hex_ascii, ascii);
    options
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks_exact(2)
        .map(|pair| {
            let text = str::from_utf8(pair).expect("hexadecimal digits are ASCII");
            u8::from_str_radix(text, 16).expect("two hexadecimal digits")
        })
        .collect()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn cases() -> Vec<Case> {
    let mut files: Vec<_> = fs::read_dir(folder())
        .expect("the cases")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    files.iter().flat_map(|file| cases_of(file)).collect()
}

fn cases_of(file: &std::path::Path) -> Vec<Case> {
    let text = fs::read_to_string(file).expect("a readable file of cases");
    let mut cases = Vec::new();
    let mut case = Case::default();
    for (number, line) in text.lines().chain([""]).enumerate() {
        if line.is_empty() {
            if !case.packets.is_empty() {
                cases.push(std::mem::take(&mut case));
            }
            continue;
        }
        if line.starts_with("# ") {
            continue;
        }
        let (key, value) = line
            .split_once(": ")
            .unwrap_or((line.trim_end_matches(':'), ""));
        match key {
            "link" => {
                case.link = value.parse().expect("a number");
                case.place = format!("{}:{}", file.display(), number + 1);
            }
            "options" => value.clone_into(&mut case.options),
            "packet" => case.packets.push(bytes(value)),
            "len" => case.len = Some(value.parse().expect("a number")),
            "line" => case.lines.push(value.to_owned()),
            other => panic!("{}:{}: unknown key {other}", file.display(), number + 1),
        }
    }
    cases
}

fn packet(data: &[u8], len: Option<u32>) -> Packet<'_> {
    Packet {
        timestamp: Timestamp::new(1_700_000_000, 123_456_789),
        len: len.unwrap_or_else(|| u32::try_from(data.len()).expect("a small packet")),
        interface: 0,
        flags: PacketFlags(0),
        data,
        process: None,
    }
}

fn print(printer: &mut Printer, data: &[u8], len: Option<u32>, link: u16) -> Vec<u8> {
    let mut out = Vec::new();
    printer
        .print(&mut out, &packet(data, len), LinkType(link), None)
        .expect("memory does not fail");
    out
}

#[test]
fn golden_lines() {
    let cases = cases();
    assert!(cases.len() > 150, "{} cases", cases.len());
    let mut failures = String::new();
    for case in &cases {
        let mut printer = Printer::new(options(&case.options));
        let mut out = Vec::new();
        for data in &case.packets {
            out.extend(print(&mut printer, data, case.len, case.link));
        }
        let shown = String::from_utf8_lossy(&out);
        if !shown.lines().eq(case.lines.iter().map(String::as_str)) {
            failures += &format!("{}\n", case.place);
            for line in shown.lines() {
                failures += &format!("line: {line}\n");
            }
        }
    }
    assert!(
        failures.is_empty(),
        "these cases give other lines:\n{failures}"
    );
}

/// Checks that output is limited, ends in one line feed, and has no control characters except those
/// of the layout.
fn check(out: &[u8], what: &str) {
    assert_eq!(out.last(), Some(&b'\n'), "{what}");
    assert!(
        out.len() <= MAX_OUTPUT,
        "{} bytes of output: {what}",
        out.len()
    );
    let bad = out
        .iter()
        .find(|&&byte| byte < 0x20 && byte != b'\n' && byte != b'\t' || byte == 0x7f);
    assert_eq!(bad, None, "{what}");
}

fn printers() -> [Printer; 4] {
    ["", "-evv", "-qe", "json"].map(|text| Printer::new(options(text)))
}

#[test]
fn every_prefix_is_printed() {
    let mut printers = printers();
    for case in cases() {
        for data in &case.packets {
            let whole = u32::try_from(data.len()).expect("a small packet");
            for end in 0..=data.len() {
                for printer in &mut printers {
                    for len in [Some(whole), None] {
                        let out = print(printer, &data[..end], len, case.link);
                        check(&out, &format!("{} cut to {end}", case.place));
                    }
                }
            }
        }
    }
}

/// Every frame without a decoder: unknown link types, Ethernet types, access points and protocols.
#[test]
fn a_frame_without_a_decoder_is_one_line() {
    let mut frames: Vec<(u16, Vec<u8>)> =
        [147, 999, u16::MAX].map(|link| (link, vec![7; 60])).into();
    for kind in (0..=u16::MAX).step_by(3) {
        let frame = [&[2; 12][..], &kind.to_be_bytes(), &[0x99; 40]].concat();
        frames.push((1, frame));
        frames.push((
            9,
            [&[0xff, 3][..], &kind.to_be_bytes(), &[0x99; 40]].concat(),
        ));
        frames.push((0, [&[0, 0][..], &kind.to_be_bytes(), &[0x99; 40]].concat()));
        let cooked = [&[0; 14][..], &kind.to_be_bytes(), &[0x99; 40]].concat();
        frames.push((113, cooked));
    }
    for sap in 0..=u8::MAX {
        for control in [0, 3, 0x7f, 0xaf] {
            let frame = [&[2; 12][..], &[0, 40, sap, sap, control], &[0x99; 37]].concat();
            frames.push((1, frame));
        }
    }
    for text in ["", "e"] {
        let mut printer = Printer::new(options(text));
        for (link, frame) in &frames {
            let out = print(&mut printer, frame, None, *link);
            let lines = out.iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(lines, 1, "-{text}, link type {link}: {frame:02x?}");
        }
    }
}

#[test]
fn dump_of_every_form_holds_every_byte() {
    let data: Vec<u8> = (0..=255).collect();
    for (text, expected) in [("-xx", 16), ("-XX", 16), ("-AA", 1)] {
        let mut printer = Printer::new(options(text));
        let out = print(&mut printer, &data, None, 65_000);
        assert!(
            out.iter().filter(|&&byte| byte == b'\n').count() > expected,
            "{text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_packets_are_printed(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        more in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        thread_local! {
            static PACKETS: Vec<(u16, Vec<u8>)> = cases()
                .into_iter()
                .flat_map(|case| case.packets.into_iter().map(move |data| (case.link, data)))
                .filter(|(_, data)| !data.is_empty())
                .collect();
        }
        let (link, mut data) = PACKETS.with(|packets| pick.get(packets).clone());
        for (place, value) in changes {
            let at = place.index(data.len());
            data[at] = value;
        }
        data.extend(more);
        for printer in &mut printers() {
            check(&print(printer, &data, None, link), "a damaged packet");
        }
    }

    #[test]
    fn random_bytes_are_printed(
        data in prop::collection::vec(any::<u8>(), 0..200),
        link in prop::sample::select(vec![0, 1, 9, 50, 51, 101, 105, 108, 113, 119, 127, 163, 192, 228, 229, 276]),
        len in any::<u32>(),
    ) {
        for printer in &mut printers() {
            check(&print(printer, &data, Some(len), link), "random bytes");
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_of_serial_links_are_printed(
        data in prop::collection::vec(any::<u8>(), 0..200),
        link in prop::sample::select(vec![104, 107, 166, 182]),
        len in any::<u32>(),
    ) {
        for printer in &mut printers() {
            check(&print(printer, &data, Some(len), link), "random bytes");
        }
    }
}

#[test]
fn a_cooked_header_shows_the_name_that_was_told() {
    let header = [8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0];
    let mut printer = Printer::new(options(""));
    printer.name_interface(3, "eth0\u{1b}");
    let out = print(&mut printer, &header, None, 276);
    assert_eq!(String::from_utf8_lossy(&out), "eth0^[ Out  [|ip]\n");
    printer.name_interface(3, "lo");
    let out = print(&mut printer, &header, None, 276);
    assert_eq!(String::from_utf8_lossy(&out), "lo    Out  [|ip]\n");
}

/// Thousands of answers, each of a few bytes and with a pointer to one long name.
#[test]
fn a_message_of_many_long_names_stays_short() {
    const ANSWERS: u16 = 3000;
    let mut message = vec![0, 1, 0x81, 0x80, 0, 1];
    message.extend(ANSWERS.to_be_bytes());
    message.extend([0; 4]);
    for _ in 0..15 {
        message.push(60);
        message.extend([7; 60]);
    }
    message.extend([0, 0, 5, 0, 1]);
    for _ in 0..ANSWERS {
        message.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, 12]);
    }
    let length = u16::try_from(message.len() + 8).expect("a small message");
    let mut data = vec![
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
    ];
    data[2..4].copy_from_slice(&(length + 20).to_be_bytes());
    data.extend([0, 53, 0, 53]);
    data.extend(length.to_be_bytes());
    data.extend([0, 0]);
    data.extend(message);
    for text in ["", "vv"] {
        let mut printer = Printer::new(options(text));
        check(&print(&mut printer, &data, None, 101), "many names");
    }
    let out = print(&mut Printer::new(options("json")), &data, None, 101);
    assert!(out.len() < 256 * 1024, "{} bytes of JSON", out.len());
}

/// Messages whose counts and pointers promise far more data than they contain.
#[test]
fn a_message_that_points_at_itself_ends() {
    let mut message = vec![
        0x12, 0x34, 0x81, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ];
    for at in 0..2000_u16 {
        // Each name points to the one before it.
        let pointer = 0xc000 | ((12 + at.saturating_sub(1) * 4) % 0x3fff);
        message.extend(pointer.to_be_bytes());
        message.extend([0, 1]);
    }
    let length = u16::try_from(message.len() + 8).expect("a small message");
    let mut data = vec![
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
    ];
    data[2..4].copy_from_slice(&(length + 20).to_be_bytes());
    data.extend([0, 53, 0, 53]);
    data.extend(length.to_be_bytes());
    data.extend([0, 0]);
    data.extend(message);
    for printer in &mut printers() {
        check(&print(printer, &data, None, 101), "pointers");
    }
}

/// A datagram of loopback with the header LINUX_SLL2.
fn cooked_datagram() -> Vec<u8> {
    bytes(
        "08000000 00000001 0304 00 00 0000000000000000 \
         4500001c000100004011000001000001 0a000002 0007 0009 00080000",
    )
}

fn dropped(note: &DropNote<'_>, options: PrintOptions) -> String {
    let data = cooked_datagram();
    let packet = Packet {
        timestamp: Timestamp::default(),
        len: u32::try_from(data.len()).expect("short"),
        interface: 0,
        flags: PacketFlags::INBOUND,
        data: &data,
        process: None,
    };
    let mut out = Vec::new();
    let mut printer = Printer::new(options);
    let link_type = LinkType::LINUX_SLL2;
    let printed = printer.print_with(&mut out, &packet, link_type, Some("drop:"), Some(note));
    printed.expect("memory does not fail");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn a_dropped_packet_begins_with_its_reason() {
    let note = DropNote {
        reason: "NO_SOCKET",
        code: 3,
        symbol: Some("__udp4_lib_rcv"),
        offset: 0x4bc,
        interface: Some("lo"),
        ifindex: 1,
        namespace: Some(4_026_531_840),
        ..DropNote::default()
    };
    assert_eq!(
        dropped(&note, options("")),
        "drop NO_SOCKET at __udp4_lib_rcv+0x4bc lo: IP 1.0.0.1.7 > 10.0.0.2.9: UDP, length 0\n"
    );
    let json = dropped(&note, options("json"));
    let object = r#""drop":{"reason":"NO_SOCKET","code":3,"function":"__udp4_lib_rcv","offset":1212,"interface":"lo","interface_index":1,"network_namespace":4026531840}"#;
    assert!(json.contains(object), "{json}");
}

#[test]
fn words_of_a_hostile_file_reach_no_terminal() {
    let note = DropNote {
        reason: "\u{1b}[2J",
        symbol: Some("\u{7}"),
        interface: Some("\u{9b}x"),
        namespace: Some(7),
        is_foreign: true,
        ..DropNote::default()
    };
    let line = dropped(&note, options(""));
    assert!(line.contains(" net:[7]: IP "), "{line}");
    let printable = |byte: u8| (b' '..=b'~').contains(&byte) || byte == b'\n';
    assert!(line.bytes().all(printable), "{line:?}");
}
