//! Searching for one host in a large capture: ringtap with and without its index, against tcpdump.
//!
//! The capture repeats the packets of the corpus, and contains one short conversation of a host
//! that occurs nowhere else. It is uncompressed and in the page cache. The searches are for that
//! host, for a frequent one, and for one that does not occur.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ringtap_capture::{FileSource, Item, LinkType, Next, ReadOptions, Source as _, open_file};
use ringtap_lab::{Need, corpus, pcap};

use crate::goals;
use crate::helpers::{check, datagram, fill_cache, float, timed};
use crate::results::Axis;
use crate::session::{Done, Session, judge};

const BYTES: u64 = 2_000_000_000;
const QUICK_BYTES: u64 = 200_000_000;
const RARE: [u8; 4] = [203, 0, 113, 77];
/// The number of packets of the rare host.
const CONVERSATION: usize = 20;
/// The time between two packets in microseconds.
const GAP: u64 = 50;
/// The time of the first packet, in seconds since the epoch.
const START: u64 = 1_769_860_800;
const ETHERNET: u32 = 1;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Corpus], 1)?;
    let tcpdump = session.needed_peer("tcpdump")?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let file = folder.path().join("search.pcap");
    let bytes = session.amount(BYTES, QUICK_BYTES);
    let packets = write(&file, bytes).map_err(|error| format!("the capture: {error}"))?;
    fill_cache(&file).map_err(|error| format!("the capture: {error}"))?;

    let ringtap = session.ringtap.clone();
    session.note(format!(
        "{packets} packets; {}",
        index(&ringtap, &file, float(bytes))?
    ));
    let title = "One host searched in a capture file";
    session.figure(title, Axis::names("search"), [("time", "s", 4)]);
    let rare = RARE.map(|byte| byte.to_string()).join(".");
    let gigabytes = float(bytes) / 1e9;
    for (what, filter) in [
        (
            &*format!("{CONVERSATION} packets of one host"),
            &*format!("host {rare}"),
        ),
        ("a host that is not there", "host 203.0.113.78"),
        ("a host and its port", &format!("host {rare} and port 53")),
        ("a host that is often there", "host 224.0.0.251"),
    ] {
        let title = format!("{gigabytes:.1} GB: {what}");
        let contenders = ["ringtap", "ringtap without index", "tcpdump"];
        let case = session.case(&title, None, &contenders, 2, |who| {
            let (program, options): (_, &[&str]) = match who {
                0 => (&ringtap, &["dump"]),
                1 => (&ringtap, &["dump", "--no-index"]),
                _ => (&tcpdump, &["-Z", "root"]),
            };
            let mut command = Command::new(program);
            command.args(options);
            command.arg("-r").arg(&file);
            command.args(["-w", "/dev/null", filter]);
            Ok(vec![timed(&mut command)?])
        })?;
        if filter.contains(&rare) {
            judge("of tcpdump's time", goals::SEARCH, case.as_ref(), 0);
        }
    }
    Ok(())
}

/// Makes the index of a capture of so many bytes, and describes it.
fn index(ringtap: &Path, file: &Path, bytes: f64) -> Done<String> {
    let begun = Instant::now();
    let mut command = Command::new(ringtap);
    command.args(["dump", "--index", "-r"]);
    check(command.arg(file).stderr(Stdio::null()))?;
    let seconds = begun.elapsed().as_secs_f64();
    let size = std::fs::metadata(file.with_extension("pcap.idx"));
    let size = float(size.map_err(|error| format!("the index: {error}"))?.len());
    Ok(format!(
        "the index was made in {seconds:.2} s ({:.0} MB/s) and takes {:.3} % of the capture",
        bytes / seconds / 1e6,
        size / bytes * 100.0
    ))
}

/// Writes the capture; returns the number of its packets.
fn write(path: &Path, bytes: u64) -> io::Result<u64> {
    let packets = corpus_packets();
    if packets.is_empty() {
        return Err(io::Error::other("the corpus has no packets of Ethernet"));
    }
    let mut output = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let header = pcap::header(ETHERNET);
    output.write_all(&header)?;
    let (mut written, mut number) = (header.len() as u64, 0);
    let mut record = |frame: &[u8], number: &mut u64| {
        pcap::record(&mut output, START * 1_000_000 + *number * GAP, 0, frame)?;
        *number += 1;
        Ok::<u64, io::Error>(16 + frame.len() as u64)
    };
    let mut rare = conversation();
    while written < bytes {
        if written > bytes / 3
            && let Some(frame) = rare.pop()
        {
            written += record(&frame, &mut number)?;
        }
        let at = usize::try_from(number).unwrap_or(0) % packets.len();
        written += record(&packets[at], &mut number)?;
    }
    output.flush()?;
    Ok(number)
}

/// Returns packets from the rare host to port 53.
fn conversation() -> Vec<Vec<u8>> {
    let mut frame = datagram(120);
    frame[26..30].copy_from_slice(&RARE);
    frame[36..38].copy_from_slice(&[0, 53]);
    vec![frame; CONVERSATION]
}

/// Returns the readable packets of the corpus that begin with an Ethernet header.
fn corpus_packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for file in corpus::files() {
        let Ok(mut source) = open_file(&file, &ReadOptions::default(), None) else {
            continue;
        };
        let mut types = link_types(&source);
        loop {
            let described = match source.next() {
                Ok(Next::Block(block)) => {
                    packets.extend(block.packets().filter_map(|packet| {
                        let known = types.get(packet.interface as usize);
                        (known == Some(&LinkType::ETHERNET)).then(|| packet.data.to_vec())
                    }));
                    false
                }
                Ok(Next::Meta(Item::Interface(_))) => true,
                Ok(Next::End) | Err(_) => break,
                Ok(_) => false,
            };
            if described {
                types = link_types(&source);
            }
        }
    }
    packets
}

fn link_types(source: &FileSource) -> Vec<LinkType> {
    source
        .interfaces()
        .iter()
        .map(|interface| interface.link_type)
        .collect()
}
