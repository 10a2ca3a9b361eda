//! Traffic for tests and benchmarks: generated from a seed, or sent from a capture file.
//!
//! [`Traffic`] makes Ethernet frames of IPv4 with TCP and UDP. Each has a sequence number at the
//! start of its payload, so that a receiver can tell exactly which frames arrived ([`sequence`]).
//! [`Replay`] runs `tcpreplay` inside a namespace. [`LiveFrames`] makes millions of frames a second
//! in the kernel, and [`XdpDrop`] is the limit for receiving them. Files are written without
//! ringtap's own writers, whose bugs would otherwise go unnoticed.

mod frame;
mod live_frames;
mod replay;
mod xdp_drop;
mod xdp_record;

pub use frame::sequence;
pub use live_frames::{Cost, LiveFrames, Target};
pub use replay::{Rate, Replay, Sent};
pub use xdp_drop::XdpDrop;
pub use xdp_record::XdpRecord;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use frame::{Builder, Kind};

/// Sizes of frames, in bytes from the Ethernet header to the last payload byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All frames have one size, from 64 to 65,535 bytes.
    Fixed(u16),
    /// The "Internet mix": of 12 frames, 7 have 64 bytes, 4 have 576 and 1 has 1500.
    Imix,
    /// Evenly distributed from the first to the second size, both included.
    Between(u16, u16),
}

/// Synthetic traffic; the same value always gives the same frames.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// The number of packets.
    pub packets: u64,
    /// Their sizes.
    pub sizes: Sizes,
    /// The seed of the pseudo-random choices.
    pub seed: u64,
    /// Nanoseconds between the timestamps of two packets; the first is at 2023-11-14T22:13:20Z.
    pub interval: u64,
}

impl Default for Traffic {
    /// Returns 1,000 packets of the Internet mix, 5 µs apart.
    fn default() -> Self {
        Self {
            packets: 1_000,
            sizes: Sizes::Imix,
            seed: 1,
            interval: 5_000,
        }
    }
}

/// The totals of a capture file of [`Traffic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets.
    pub packets: u64,
    /// Bytes of the packets, without the file's headers.
    pub bytes: u64,
    /// Packets that `tcp port 443` matches.
    pub https: u64,
    /// Packets that `udp` matches.
    pub udp: u64,
}

const START_NANOS: u64 = 1_700_000_000_000_000_000;
const SMALLEST: u16 = 64;

impl Traffic {
    /// Writes a capture file: pcap, microseconds, this machine's byte order, Ethernet.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write_file(&self, file: &Path) -> io::Result<Totals> {
        let mut writer = BufWriter::with_capacity(1 << 20, File::create(file)?);
        let totals = self.write(&mut writer)?;
        writer.flush()?;
        Ok(totals)
    }

    /// Writes a capture file of so many packets into a temporary folder of its own.
    ///
    /// # Panics
    /// Panics if it cannot be written.
    #[must_use]
    pub fn file_of(packets: u64) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("sent.pcap");
        let traffic = Self {
            packets,
            ..Self::default()
        };
        traffic.write_file(&file).expect("a capture");
        (folder, file)
    }

    /// Writes the same to a stream, such as the pipe to a child.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write<W: Write>(&self, mut writer: W) -> io::Result<Totals> {
        writer.write_all(&crate::pcap::header(1))?;
        let mut totals = Totals::default();
        let mut result = Ok(());
        self.each(|index, kind, frame| {
            totals.packets += 1;
            totals.bytes += frame.len() as u64;
            totals.https += u64::from(kind == Kind::Https);
            totals.udp += u64::from(kind.is_udp());
            let micros = (START_NANOS + index * self.interval) / 1_000;
            result = crate::pcap::record(&mut writer, micros, 0, frame);
            result.is_ok()
        });
        result.map(|()| totals)
    }

    /// Returns the frames with their sequence numbers, in order; all of them are held in memory.
    #[must_use]
    pub fn frames(&self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        self.each(|_, _, frame| {
            frames.push(frame.to_vec());
            true
        });
        frames
    }

    /// Passes each frame to `sink` until it returns false.
    fn each(&self, mut sink: impl FnMut(u64, Kind, &[u8]) -> bool) {
        let mut random = Random(self.seed);
        let mut builder = Builder::new();
        for index in 0..self.packets {
            let kind = Kind::choose(random.below(100));
            let size = self.size(&mut random);
            let flow = random.below(4096);
            if !sink(index, kind, builder.build(kind, size, flow, index)) {
                return;
            }
        }
    }

    fn size(&self, random: &mut Random) -> u16 {
        let size = match self.sizes {
            Sizes::Fixed(size) => size,
            Sizes::Imix => match random.below(12) {
                0..7 => 64,
                7..11 => 576,
                _ => 1500,
            },
            Sizes::Between(from, to) => from + random.below(to.saturating_sub(from) + 1),
        };
        size.max(SMALLEST)
    }
}

/// SplitMix64: small, without bad seeds, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Returns a number below `limit`, which is not 0.
    fn below(&mut self, limit: u16) -> u16 {
        let wide = (self.next() >> 48) * u64::from(limit);
        let [low, high, ..] = (wide >> 16).to_le_bytes();
        u16::from_le_bytes([low, high])
    }
}
