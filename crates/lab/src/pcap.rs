//! pcap files of this machine's byte order: written from frames, and read to check a program's
//! output. It is simple on purpose, and shares no code with `ringtap-savefile`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The snaplen in the header of written files, in bytes.
const SNAPLEN: u32 = 262_144;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// Returns the header of a pcap file, version 2.4, microseconds (draft-ietf-opsawg-pcap, section
/// 4).
#[must_use]
pub fn header(link_type: u32) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..4].copy_from_slice(&MICROSECONDS.to_ne_bytes());
    header[4..6].copy_from_slice(&2_u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4_u16.to_ne_bytes());
    header[16..20].copy_from_slice(&SNAPLEN.to_ne_bytes());
    header[20..].copy_from_slice(&link_type.to_ne_bytes());
    header
}

/// Writes Ethernet frames to a file, a microsecond apart.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn write<F: AsRef<[u8]>>(path: &Path, frames: impl IntoIterator<Item = F>) -> io::Result<()> {
    let mut writer = BufWriter::new(File::create(path)?);
    writer.write_all(&header(1))?;
    for (micros, frame) in (1_700_000_000_000_000..).zip(frames) {
        record(&mut writer, micros, 0, frame.as_ref())?;
    }
    writer.flush()
}

/// Writes a packet with its time in microseconds since the epoch. `len` is its length on the wire, where that is more
/// than its bytes.
///
/// # Errors
/// Returns an error if it cannot be written, or if its time or length is beyond the format.
pub fn record(out: &mut impl Write, micros: u64, len: u32, data: &[u8]) -> io::Result<()> {
    let captured = u32::try_from(data.len()).map_err(io::Error::other)?;
    let second = u32::try_from(micros / 1_000_000).map_err(io::Error::other)?;
    let rest = u32::try_from(micros % 1_000_000).map_err(io::Error::other)?;
    let words = [second, rest, captured, len.max(captured)];
    out.write_all(&words.map(u32::to_ne_bytes).concat())?;
    out.write_all(data)
}

/// A pcap file in memory, with its header parsed.
#[derive(Clone, Copy, Debug)]
pub struct Pcap<'a> {
    /// Whether timestamps have nanoseconds; otherwise microseconds.
    pub nanoseconds: bool,
    /// LINKTYPE value.
    pub link_type: u32,
    /// The snaplen in bytes.
    pub snaplen: u32,
    records: &'a [u8],
}

/// A packet record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Seconds since the epoch.
    pub secs: u32,
    /// Nanoseconds beyond them.
    pub nanos: u64,
    /// Length on the wire in bytes.
    pub len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

impl<'a> Pcap<'a> {
    /// Parses the header.
    ///
    /// # Errors
    /// Returns a description of an invalid header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let (header, records) = bytes
            .split_at_checked(FILE_HEADER)
            .ok_or("no whole file header")?;
        let nanoseconds = match word(header, 0) {
            MICROSECONDS => false,
            NANOSECONDS => true,
            magic => return Err(format!("magic number {magic:#x}")),
        };
        let (snaplen, link_type) = (word(header, 16), word(header, 20));
        Ok(Self {
            nanoseconds,
            link_type,
            snaplen,
            records,
        })
    }

    /// Returns the records, with an error in place of an incomplete one.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'a>, String>> + use<'a> {
        let Self {
            nanoseconds,
            mut records,
            ..
        } = *self;
        let nanos_per_unit = if nanoseconds { 1 } else { 1_000 };
        std::iter::from_fn(move || {
            if records.is_empty() {
                return None;
            }
            let rest = std::mem::take(&mut records);
            let Some((header, rest)) = rest.split_at_checked(RECORD_HEADER) else {
                return Some(Err(format!("{} bytes after the last record", rest.len())));
            };
            let Some((data, rest)) = rest.split_at_checked(word(header, 8) as usize) else {
                return Some(Err(format!("a record of {} bytes is cut", word(header, 8))));
            };
            records = rest;
            let nanos = u64::from(word(header, 4)) * nanos_per_unit;
            Some(Ok(Record {
                secs: word(header, 0),
                nanos,
                len: word(header, 12),
                data,
            }))
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::{Pcap, write};

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pcap");
        write(&path, [&b"one"[..], b"three"]).expect("written");
        let bytes = std::fs::read(&path).expect("read");
        let pcap = Pcap::parse(&bytes).expect("a header");
        assert_eq!(
            (pcap.nanoseconds, pcap.link_type, pcap.snaplen),
            (false, 1, 262_144)
        );
        let records: Result<Vec<_>, _> = pcap.records().collect();
        let records = records.expect("whole records");
        assert_eq!(
            (records[0].data, records[1].data),
            (&b"one"[..], &b"three"[..])
        );
        assert_eq!((records[1].nanos, records[1].len), (1_000, 5));
        let cut = Pcap::parse(&bytes[..bytes.len() - 1]).expect("a header");
        assert_eq!(cut.records().filter(Result::is_err).count(), 1);
        assert!(Pcap::parse(&bytes[..20]).is_err());
    }
}
