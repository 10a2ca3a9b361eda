//! Copies of a window of time, which the rotation does not remove.
//!
//! Whole chunks are copied as they are, so that a copy costs no decompression and its size is known before: it
//! has some packets around the window too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::chunks::{CODEC, read_chunk};
use super::entry::{Chunk, Cut};
use super::listing::{Listed, Listing, Window};
use super::name::{PLAIN, ZSTD};
use super::{Archive, name};

/// The share of the budget that copies may take.
const SHARE: u64 = 2;
/// The bytes that each file of a copy counts beyond its content.
const EACH: u64 = 8192;

/// A copy that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The packets in them.
    pub packets: u64,
    /// The bytes of them.
    pub bytes: u64,
    /// The number of chunks that are damaged or were removed meanwhile.
    pub missing: u64,
    /// The packets that were cut about the time of the window.
    pub cut: Cut,
}

/// A file of a copy: chunks of files with the same header.
struct Planned {
    compressed: bool,
    header: Vec<Chunk>,
    chunks: Vec<(Listed, Vec<Chunk>)>,
}

impl Archive {
    /// Keeps files with packets from this time on as long as others can be removed instead. `None` ends that.
    pub fn hold(&self, from: Option<i64>) {
        self.state().hold = from;
    }

    /// Reads the catalogue, as far as it is about a window.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn listing(&self, window: Window) -> io::Result<Listing> {
        let generation = self.state().catalogue.generation;
        let path = self.folder.join(name::catalogue(generation));
        Ok(Listing::read(self.files.read(&path)?, window)?.unwrap_or_default())
    }

    /// Makes room for a copy of this size.
    ///
    /// # Errors
    /// The copies would take more than half of the budget.
    pub fn reserve_copy(&self, bytes: u64) -> io::Result<()> {
        let before = self.state().incidents;
        if before.saturating_add(bytes) > self.options.budget / SHARE {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("copies may take half of the budget; this one has {bytes} bytes"),
            ));
        }
        self.set_incidents(before + bytes)
    }

    /// Gives back the part of a copy's room that it has not used.
    pub fn give_back_copy(&self, bytes: u64) {
        let mut state = self.state();
        state.incidents = state.incidents.saturating_sub(bytes);
    }

    /// Copies the chunks of a window into the folder of incidents, a file for each device, with names that
    /// begin with `prefix`.
    ///
    /// # Errors
    /// The copies would take more than half of the budget; a file cannot be read or written.
    pub fn copy(&self, window: Window, prefix: &str) -> io::Result<Copied> {
        let listing = self.listing(window)?;
        let mut cut = Cut::default();
        listing.cut.values().for_each(|one| cut.add(*one));
        let planned = plan(listing);
        let content: u64 = planned.values().flatten().map(Planned::bytes).sum();
        let count = planned.values().flatten().count() as u64 + 1;
        let bytes = content + EACH * count;
        self.reserve_copy(bytes)?;
        let mut copied = Copied {
            bytes: content,
            cut,
            ..Copied::default()
        };
        let result = self.write_copies(planned, prefix, &mut copied);
        if result.is_err() {
            // A part without its reason would take the room of others.
            for path in &copied.files {
                let _ = self.files.remove(path);
            }
            self.give_back_copy(bytes);
        }
        result.map(|()| copied)
    }

    fn write_copies(
        &self,
        planned: BTreeMap<String, Vec<Planned>>,
        prefix: &str,
        copied: &mut Copied,
    ) -> io::Result<()> {
        for (device, files) in planned {
            for (number, file) in files.iter().enumerate() {
                let end = if file.compressed { ZSTD } else { PLAIN };
                let more = match number {
                    0 => String::new(),
                    _ => format!("-{number}"),
                };
                let name = format!("{prefix}-{device}{more}{end}");
                let path = self.folder.join(name::INCIDENTS).join(name);
                copied.files.push(path.clone());
                self.write_copy(file, &path, copied)?;
            }
        }
        Ok(())
    }

    fn write_copy(&self, file: &Planned, to: &Path, copied: &mut Copied) -> io::Result<()> {
        let output: File = self.files.write(to)?.emptied()?;
        let (begin, end): (&[u8], &[u8]) = match file.compressed {
            true => (CODEC.begin(), CODEC.end()),
            false => (&[], &[]),
        };
        output.write_all_at(begin, 0)?;
        let mut at = begin.len() as u64;
        let mut bytes = Vec::new();
        for (place, (listed, chunks)) in file.chunks.iter().enumerate() {
            let path = listed.name.path(&self.folder);
            let reading = match self.files.read(&path) {
                Ok(reading) => reading,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    copied.missing += chunks.len() as u64;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let header = if place == 0 { &file.header[..] } else { &[] };
            for chunk in header.iter().chain(chunks) {
                if read_chunk(&reading, chunk, &mut bytes)? {
                    output.write_all_at(&bytes, at)?;
                    at += bytes.len() as u64;
                    copied.packets += u64::from(chunk.packets);
                } else {
                    copied.missing += 1;
                }
            }
        }
        output.write_all_at(end, at)?;
        output.sync_data()
    }
}

impl Planned {
    fn bytes(&self) -> u64 {
        let chunks = self.chunks.iter().flat_map(|(_, chunks)| chunks);
        let all = self.header.iter().chain(chunks);
        all.map(|chunk| u64::from(chunk.len)).sum::<u64>() + 16
    }
}

/// Puts the chunks of each device together, as far as their files have the same header.
fn plan(listing: Listing) -> BTreeMap<String, Vec<Planned>> {
    let mut planned: BTreeMap<String, Vec<Planned>> = BTreeMap::new();
    for listed in listing.files {
        if !listed.is_listed() {
            continue;
        }
        let (header, chunks): (Vec<Chunk>, Vec<Chunk>) =
            listed.chunks.iter().partition(|chunk| chunk.packets == 0);
        let files = planned.entry(listed.name.device.clone()).or_default();
        let same = |planned: &&mut Planned| {
            let ours = planned.header.iter().map(|chunk| chunk.checksum);
            let theirs = header.iter().map(|chunk| chunk.checksum);
            planned.compressed == listed.name.compressed && ours.eq(theirs)
        };
        match files.last_mut().filter(same) {
            Some(planned) => planned.chunks.push((listed, chunks)),
            None => files.push(Planned {
                compressed: listed.name.compressed,
                header,
                chunks: vec![(listed, chunks)],
            }),
        }
    }
    planned
}
