//! The capture files that the experiment meters. Two runs write the same bytes.

use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use ringtap_lab::corpus;
use ringtap_lab::pcap::{self, Pcap};
use ringtap_sys::disk;
use twox_hash::XxHash64;

use super::vary::vary;

/// The size of the capture that the corpus is repeated to, in bytes.
const BYTES: u64 = 1_050_000_000;
const QUICK_BYTES: u64 = 100_000_000;
/// The same for mixed traffic.
const MIXED_BYTES: u64 = 1_200_000_000;
const FLOWS: u32 = 1_000_000;
const QUICK_FLOWS: u32 = 100_000;
/// The number of packets of each flow.
const TURNS: u32 = 5;
const APART_US: u64 = 10;
const START_US: u64 = 1_700_000_000_000_000;
const ETHERNET: u32 = 1;
/// Bytes of a record before its packet.
const RECORD_HEADER: u64 = 16;
/// Another number makes other names for files that are kept: change it with what is in them.
const VERSION: u64 = 1;

/// Writes the Ethernet captures of the corpus, repeated. Returns the number of packets.
pub(super) fn write_corpus(path: &Path, quick: bool) -> io::Result<u64> {
    let goal = if quick { QUICK_BYTES } else { BYTES };
    Packets::of_corpus()?.write(File::create(path)?, goal, |_, _| {})
}

/// Returns a file of mixed traffic and the number of its packets. The file is the Ethernet captures of
/// the corpus, repeated, each time between other hosts.
///
/// It is kept in the user's cache, where the next run finds it. If the cache has no room for it, it is
/// written to `folder`.
pub(super) fn mixed(folder: &Path, quick: bool) -> io::Result<(PathBuf, u64)> {
    let goal = if quick { QUICK_BYTES } else { MIXED_BYTES };
    let packets = Packets::of_corpus()?;
    let kept = corpus::cache().map(|cache| cache.join("bench"));
    if let Some(kept) = kept.filter(|kept| std::fs::create_dir_all(kept).is_ok()) {
        let size = if quick { "quick" } else { "mixed" };
        let path = kept.join(format!("{size}-{:016x}.pcap", packets.fingerprint(goal)));
        if path.is_file() {
            return Ok((path, packets.count(goal)));
        }
        remove_older(&kept, size)?;
        match packets.write_mixed(&path, goal) {
            Err(error) if error.kind() == ErrorKind::StorageFull => {}
            written => return written.map(|count| (path, count)),
        }
    }
    let path = folder.join("mixed.pcap");
    let count = packets.write_mixed(&path, goal)?;
    Ok((path, count))
}

/// Writes packets of 64 bytes, including the frame check sequence: all flows in turn, in an order
/// that jumps across the addresses.
pub(super) fn write_flows(path: &Path, quick: bool) -> io::Result<u64> {
    let flows = if quick { QUICK_FLOWS } else { FLOWS };
    // It has no common factor with the number of flows.
    const STRIDE: u64 = 618_033_989;
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(path)?);
    writer.write_all(&pcap::header(ETHERNET))?;
    let mut frame = [0_u8; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    // Not DNS, whose packets nfpcapd writes one by one, without a cache.
    frame[34..42].copy_from_slice(&[0x10, 0, 0x23, 0x28, 0, 26, 0, 0]);
    let packets = u64::from(flows) * u64::from(TURNS);
    for number in 0..packets {
        let turn = number / u64::from(flows);
        let flow = number.wrapping_mul(STRIDE).wrapping_add(turn * 7) % u64::from(flows);
        let address = u32::try_from(flow).map_err(io::Error::other)?;
        frame[26..30].copy_from_slice(&(0x0a00_0000 + address).to_be_bytes());
        frame[30..34].copy_from_slice(&(0xc0a8_0000 + address % 65_536).to_be_bytes());
        pcap::record(&mut writer, START_US + number * APART_US, 0, &frame)?;
    }
    writer.flush()?;
    Ok(packets)
}

/// Removes the files of this size that were made of another corpus, or in another way.
fn remove_older(kept: &Path, size: &str) -> io::Result<()> {
    for entry in std::fs::read_dir(kept)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_one = |name: &str| name.starts_with(size) && name.ends_with(".pcap");
        if name.to_str().is_some_and(is_one) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Packets that are written one after the other, and then again.
struct Packets {
    /// The bytes of each, and its length on the wire.
    packets: Vec<(Vec<u8>, u32)>,
}

impl Packets {
    /// Reads the Ethernet captures of the corpus.
    fn of_corpus() -> io::Result<Self> {
        let mut packets = Vec::new();
        for file in corpus::files() {
            let capture = std::fs::read(file)?;
            let Ok(capture) = Pcap::parse(&capture) else {
                continue;
            };
            if capture.link_type != ETHERNET {
                continue;
            }
            // Damaged files end where they are damaged.
            let whole = capture.records().map_while(Result::ok);
            // Packets that are too long for some programs are left out.
            let short = whole.filter(|record| record.data.len() <= usize::from(u16::MAX));
            packets.extend(short.map(|record| (record.data.to_vec(), record.len)));
        }
        Ok(Self { packets })
    }

    /// Returns how often all packets are written, so that the file has `goal` bytes or a little more.
    fn repetitions(&self, goal: u64) -> u64 {
        let sizes = self.packets.iter();
        let bytes: u64 = sizes
            .map(|(data, _)| RECORD_HEADER + data.len() as u64)
            .sum();
        goal.checked_div(bytes).map_or(0, |times| times + 1)
    }

    /// Returns the number of packets in a file of `goal` bytes.
    fn count(&self, goal: u64) -> u64 {
        self.repetitions(goal) * self.packets.len() as u64
    }

    /// Returns a number that differs for other packets, and for other files made of them.
    fn fingerprint(&self, goal: u64) -> u64 {
        let mut hasher = XxHash64::with_seed(VERSION);
        hasher.write_u64(goal);
        for (data, len) in &self.packets {
            hasher.write_u32(*len);
            hasher.write(data);
        }
        hasher.finish()
    }

    /// Writes mixed traffic to a file that has this name only once it is whole.
    fn write_mixed(&self, path: &Path, goal: u64) -> io::Result<u64> {
        let part = path.with_extension("part");
        let file = File::create(&part)?;
        let written = match disk::reserve(&file, 0, goal).map_err(|error| error.r#source) {
            Err(error) if error.kind() == ErrorKind::StorageFull => Err(error),
            // Some file systems cannot reserve.
            _ => self.write(file, goal, vary),
        };
        if let Err(error) = written {
            std::fs::remove_file(&part)?;
            return Err(error);
        }
        std::fs::rename(&part, path)?;
        written
    }

    /// Writes the packets as often as the file needs them. `change` gets each packet and the number of
    /// the repetition.
    fn write(&self, file: File, goal: u64, change: fn(&mut [u8], u16)) -> io::Result<u64> {
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        writer.write_all(&pcap::header(ETHERNET))?;
        let mut number = 0;
        let mut frame = Vec::new();
        for repetition in 0..self.repetitions(goal) {
            let repetition = u16::try_from(repetition).map_err(io::Error::other)?;
            for (data, len) in &self.packets {
                frame.clear();
                frame.extend_from_slice(data);
                change(&mut frame, repetition);
                pcap::record(&mut writer, START_US + number * APART_US, *len, &frame)?;
                number += 1;
            }
        }
        writer.flush()?;
        Ok(number)
    }
}
