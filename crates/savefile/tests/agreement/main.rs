//! Compares the reader with the installed libpcap: the files that `tcpdump -r` accepts and rejects,
//! and their packets.
//!
//! Deliberate differences, each of which is a limitation of libpcap 1.10:
//! - A pcapng file whose interfaces differ in link type or snaplen: libpcap ends with an error at
//!   the interface that differs, ringtap reads on.
//! - Sections of different byte order: libpcap reports the later one's lengths as damage.
//! - A link type for which libpcap has no filter compiler: tcpdump cannot read the file, although
//!   libpcap's reader can.
//! - A fraction of more than a second (damaged files): in libpcap it wraps at 32 bits when it is
//!   converted from microseconds to nanoseconds and written.
//! - Binary timestamp units finer than 2^-34 s: libpcap's conversion to nanoseconds overflows.
//! - Seconds beyond 32 bits: libpcap cuts them when it writes pcap.

#[path = "../savefile/collect.rs"]
mod collect;

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use collect::{Collected, OwnedPacket, read_bytes};
use ringtap_savefile::{LinkType, MAX_SNAPLEN};
use ringtap_testkit::captures::{PcapHeader, variants};
use ringtap_testkit::libpcap::Oracle;
use ringtap_testkit::{Need, corpus, suite, test, versions};

fn main() -> ExitCode {
    let tcpdump = Need::Tool("tcpdump");
    suite(vec![
        test("corpus", &[Need::Corpus, tcpdump], corpus_agrees),
        test("pcap_variants", &[tcpdump], pcap_variants_agree),
        test("pcapng_variants", &[tcpdump], pcapng_variants_agree),
        test(
            "several_link_types_are_read_on",
            &[tcpdump],
            several_link_types,
        ),
        test("link_type_table", &[Need::LibpcapDev], link_types_agree),
    ])
}

fn corpus_agrees() {
    let mut disagreements = Vec::new();
    let files = corpus::files();
    assert!(files.len() > 100, "the corpus has {} files", files.len());
    for file in files {
        let bytes = std::fs::read(&file).expect("corpus file");
        if let Err(what) = compare(&file, &bytes) {
            disagreements.push(format!("{}: {what}", corpus::name(&file)));
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

fn pcap_variants_agree() {
    compare_all(variants::pcap_variants());
}

fn pcapng_variants_agree() {
    compare_all(variants::pcapng_variants());
}

fn several_link_types() {
    for (name, bytes) in variants::beyond_libpcap() {
        let ours = read_bytes(&bytes);
        assert!(ours.error.is_none(), "{name}: {}", ours.error_text());
        let theirs = tcpdump(&written(&bytes));
        assert!(
            !theirs.status.success(),
            "{name}: libpcap learned to read it"
        );
        let given = raw_packets(&theirs.stdout).map_or(0, |file| file.packets.len());
        assert!(given < ours.packets.len(), "{name}: ringtap reads on");
    }
}

/// Every link type in a file has the same DLT_ value as in libpcap, and the same name if libpcap
/// has one.
fn link_types_agree() {
    let mut oracle = Oracle::start().expect("oracle");
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    let mut named = 0;
    for value in 0..=310 {
        let header = PcapHeader {
            link_type: u32::from(value),
            ..PcapHeader::MICROS
        };
        std::fs::write(file.path(), header.bytes()).expect("written");
        let dlt = oracle.read(file.path()).expect("libpcap reads it").dlt;
        let link_type = LinkType(value).canonical();
        assert_eq!(link_type.to_dlt(), dlt, "LINKTYPE_ {value}");
        assert_eq!(LinkType::from_dlt(dlt), Some(link_type), "DLT_ {dlt}");
        if let Ok((name, _)) = oracle.link_type(dlt)
            && !name.is_empty()
        {
            // A newer name exists beside the former one.
            match versions::is_name_newer(dlt) {
                true => assert_eq!(LinkType::from_name(&name), Some(link_type), "DLT_ {dlt}"),
                false => assert_eq!(link_type.name(), Some(name.as_str()), "DLT_ {dlt}"),
            }
            named += 1;
        }
    }
    assert!(named > 100, "libpcap named {named} link types");
}

fn compare_all(cases: Vec<(String, Vec<u8>)>) {
    let mut disagreements = Vec::new();
    for (name, bytes) in cases {
        if let Err(what) = compare(&written(&bytes), &bytes) {
            disagreements.push(format!("{name}: {what}"));
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

/// Writes the bytes to a temporary file.
fn written(bytes: &[u8]) -> tempfile::TempPath {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    file.into_temp_path()
}

fn tcpdump(file: &Path) -> Output {
    Command::new("tcpdump")
        .args(["--nano", "-w", "-", "-r"])
        .arg(file)
        .output()
        .expect("tcpdump runs")
}

fn compare(file: &Path, bytes: &[u8]) -> Result<(), String> {
    let theirs = tcpdump(file);
    let message = String::from_utf8_lossy(&theirs.stderr).into_owned();
    let ours = read_bytes(bytes);
    if theirs.status.success() != ours.error.is_none() {
        return Err(format!(
            "libpcap: {message}; ringtap: {}",
            ours.error_text()
        ));
    }
    let Some(expected) = raw_packets(&theirs.stdout) else {
        return match ours.packets.len() {
            0 => Ok(()),
            count => Err(format!("libpcap gives no file, ringtap {count} packets")),
        };
    };
    compare_packets(&expected, &ours)?;
    let readable = MAX_SNAPLEN as usize;
    if expected
        .packets
        .iter()
        .any(|packet| packet.data.len() > readable)
    {
        // libpcap cannot read the file that it wrote here.
        return Ok(());
    }
    // The reader reads the same packets from libpcap's output.
    let again = read_bytes(&theirs.stdout);
    compare_packets(&expected, &again).map_err(|what| format!("libpcap's output: {what}"))
}

fn compare_packets(expected: &RawFile, ours: &Collected) -> Result<(), String> {
    if expected.packets.len() != ours.packets.len() {
        return Err(format!(
            "{} packets, ringtap {}: {}",
            expected.packets.len(),
            ours.packets.len(),
            ours.error_text()
        ));
    }
    for (index, (theirs, packet)) in expected.packets.iter().zip(&ours.packets).enumerate() {
        let interface = &ours.interfaces[packet.interface as usize];
        let field = u32::from(interface.link_type.0) | interface.link_type_bits;
        if field != expected.link_type_field {
            return Err(format!(
                "link type {:#x} != {field:#x}",
                expected.link_type_field
            ));
        }
        if !same(theirs, packet) {
            return Err(format!("packet {index}: {theirs:?} != {packet:?}"));
        }
    }
    Ok(())
}

fn same(theirs: &RawPacket, ours: &OwnedPacket) -> bool {
    let (secs, nanos) = ours.timestamp.stored();
    secs.cast_unsigned() & 0xffff_ffff == u64::from(theirs.secs)
        && nanos & 0xffff_ffff == u64::from(theirs.fraction)
        && theirs.len == ours.len
        && theirs.data == ours.data
}

/// A pcap file in this machine's byte order, parsed without the crate.
struct RawFile {
    link_type_field: u32,
    packets: Vec<RawPacket>,
}

#[derive(Debug)]
struct RawPacket {
    secs: u32,
    fraction: u32,
    len: u32,
    data: Vec<u8>,
}

fn raw_packets(bytes: &[u8]) -> Option<RawFile> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    assert_eq!(word(0)?, 0xa1b2_3c4d, "tcpdump --nano writes nanoseconds");
    let mut file = RawFile {
        link_type_field: word(20)?,
        packets: Vec::new(),
    };
    let mut at = 24;
    while at < bytes.len() {
        let caplen = word(at + 8)? as usize;
        file.packets.push(RawPacket {
            secs: word(at)?,
            fraction: word(at + 4)?,
            len: word(at + 12)?,
            data: bytes[at + 16..at + 16 + caplen].to_vec(),
        });
        at += 16 + caplen;
    }
    Some(file)
}
