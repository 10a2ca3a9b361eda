//! Opens an archive, and mends what a crash left: files without their end, and differences between the
//! catalogue and the folder.
//!
//! The work does not grow with the folder. Only files without their end are read, from their last listed chunk
//! on; the rest is the catalogue and the names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ringtap_savefile::{
    ByteOrder, Codec, InterfaceTable, ReadOptions, Reader, decompressed_start, summarize_blocks,
    whole_blocks,
};

use super::catalogue::Catalogue;
use super::chunks::CODEC;
use super::entry::{Chunk, Entry, Reason};
use super::files::{Files, Found};
use super::name::{FileName, generation};
use super::{Archive, ArchiveError, ArchiveOptions, Recorded, Repaired, State, index_of};
use crate::checksum;
use crate::host::WrittenChunk;

/// The most bytes after the last listed chunk that are mended. A file with more stays as it is, and is read as
/// a whole.
const LONGEST_TAIL: u64 = 32 << 20;

impl Archive {
    /// Opens the archive in a folder, which is open as `directory` and has the files `found`. The caller holds
    /// the folder's lock. `incidents` are the bytes of the copies that triggers made.
    ///
    /// # Errors
    /// A file cannot be read or written; what cannot be removed takes more than the budget.
    pub fn open(
        folder: &Path,
        directory: File,
        found: &[Found],
        incidents: u64,
        files: Arc<dyn Files>,
        options: ArchiveOptions,
    ) -> Result<(Self, Repaired), ArchiveError> {
        let failed = |source| ArchiveError::File {
            path: folder.to_owned(),
            source,
        };
        let mut known = Known::default();
        let opened = open_catalogue(&*files, folder, found, &mut known);
        let (catalogue, damaged, others) = opened.map_err(failed)?;
        let mut repaired = Repaired {
            damaged,
            ..Repaired::default()
        };
        let next = known.next(found);
        let place = super::place_of(&*files, folder).ok();
        let archive = Self {
            folder: folder.to_owned(),
            directory,
            files,
            options,
            state: Mutex::new(State {
                catalogue,
                files: std::mem::take(&mut known.files),
                next,
                charged: 0,
                incidents,
                removed: 0,
                hold: None,
                place,
            }),
        };
        archive
            .compare(&known, found, &mut repaired)
            .map_err(failed)?;
        for old in others {
            let _ = archive.files.remove(&old);
        }
        archive.fit()?;
        Ok((archive, repaired))
    }

    /// Makes the catalogue and the folder agree.
    fn compare(&self, known: &Known, found: &[Found], repaired: &mut Repaired) -> io::Result<()> {
        let bytes = found.iter().map(|found| (&*found.name, found.bytes));
        let bytes: BTreeMap<&str, u64> = bytes.collect();
        let mut state = self.state();
        let listed: BTreeSet<u32> = state.files.keys().copied().collect();
        for &number in &listed {
            let Some(name) = state.files.get(&number).map(|file| file.name.to_string()) else {
                continue;
            };
            let Some(&taken) = bytes.get(name.as_str()) else {
                repaired.missing += 1;
                self.remove(&mut state, number, Reason::Missing)?;
                continue;
            };
            let index = bytes.get(format!("{name}.idx").as_str());
            state.charge(number, taken + index.copied().unwrap_or(0));
            if !known.ended.contains(&number) {
                self.end_file(&mut state, number, repaired)?;
            }
        }
        for found in found {
            let data = found.name.strip_suffix(".idx").unwrap_or(&found.name);
            let Some(name) = FileName::parse(data) else {
                continue;
            };
            let known_file = state.files.get(&name.number);
            let is_known = known_file.is_some_and(|file| file.name == name);
            // A listed file that was without packets has been removed.
            let is_done = found.name == data && listed.contains(&name.number);
            if is_known || is_done {
                continue;
            }
            let path = self.folder.join(&found.name);
            if known.gone.contains(&name.number) || data.len() < found.name.len() {
                // It was about to be removed, or is an index without its file.
                match self.files.remove(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => continue,
                }
            }
            repaired.unknown += 1;
            self.adopt(&mut state, name, found.bytes, repaired)?;
        }
        Ok(())
    }

    /// Ends a file that a crash cut.
    fn end_file(&self, state: &mut State, number: u32, repaired: &mut Repaired) -> io::Result<()> {
        let Some(file) = state.files.get_mut(&number) else {
            return Ok(());
        };
        let path = file.name.path(&self.folder);
        let mended = mend(&*self.files, &path, file)?;
        repaired.ended += 1;
        let (more, len, is_listed) = match mended {
            Mended::Whole { chunk, bytes, cut } => {
                repaired.cut += cut;
                (chunk, bytes, true)
            }
            Mended::Unlisted { bytes } => (None, bytes, false),
            Mended::Empty => (None, 0, true),
        };
        if let Some(chunk) = &more {
            repaired.packets += u64::from(chunk.packets);
            file.add(chunk);
        }
        file.is_complete = true;
        if file.packets == 0 && is_listed {
            return self.remove(state, number, Reason::Empty);
        }
        let end = file.ended(len, is_listed);
        if let Some(chunk) = more {
            state.catalogue.append(&Entry::Chunk(chunk))?;
        }
        state.catalogue.append(&Entry::End(end))?;
        if let Some(bytes) = self.measure(&path) {
            let index = self.measure(&index_of(&path)).unwrap_or(0);
            state.charge(number, bytes + index);
        }
        Ok(())
    }

    /// Takes a file that the catalogue does not know.
    fn adopt(
        &self,
        state: &mut State,
        name: FileName,
        bytes: u64,
        repaired: &mut Repaired,
    ) -> io::Result<()> {
        let number = name.number;
        state.catalogue.append(&Entry::File(name.clone()))?;
        // The name has the first time; the last is not known.
        state.files.insert(number, Recorded::new(name));
        state.charge(number, bytes);
        self.end_file(state, number, repaired)?;
        repaired.ended -= 1;
        Ok(())
    }

    /// Ends a file whose recording has failed, as after a crash. Does nothing if the file is complete.
    ///
    /// # Errors
    /// The file cannot be read or written. It then counts as it is.
    pub fn give_up(&self, path: &Path) -> io::Result<Repaired> {
        let mut repaired = Repaired::default();
        let Some(name) = super::name_of(path) else {
            return Ok(repaired);
        };
        let mut state = self.state();
        let file = state.files.get_mut(&name.number);
        let Some(file) = file.filter(|file| !file.is_complete) else {
            return Ok(repaired);
        };
        // Whatever happens now, it may be removed.
        file.is_complete = true;
        self.end_file(&mut state, name.number, &mut repaired)?;
        Ok(repaired)
    }

    /// Ends all files that no recording has open: those of recordings that have failed.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn give_up_device(&self, device: &str) -> io::Result<()> {
        let state = self.state();
        let left = state.files.values();
        let left = left.filter(|file| !file.is_complete && file.name.device == device);
        let left: Vec<PathBuf> = left.map(|file| file.name.path(&self.folder)).collect();
        drop(state);
        left.iter()
            .try_for_each(|path| self.give_up(path).map(drop))
    }

    /// Removes the oldest files until the rest fits into the budget.
    fn fit(&self) -> Result<(), ArchiveError> {
        let mut state = self.state();
        let made = self.make_room(&mut state, 0, 0);
        made.map_err(|_| ArchiveError::OverBudget {
            folder: self.folder.clone(),
            taken: state.total(),
            budget: self.options.budget,
        })
    }
}

/// The content of a catalogue.
#[derive(Default)]
struct Known {
    files: BTreeMap<u32, Recorded>,
    ended: BTreeSet<u32>,
    gone: BTreeSet<u32>,
}

impl Known {
    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::File(name) => {
                self.files.insert(name.number, Recorded::new(name));
            }
            Entry::Chunk(chunk) => {
                if let Some(file) = self.files.get_mut(&chunk.file) {
                    file.add(&chunk);
                }
            }
            Entry::End(end) => {
                if let Some(file) = self.files.get_mut(&end.file) {
                    file.is_complete = true;
                    file.packets = file.packets.max(end.packets);
                    file.times = super::both(file.times, end.times);
                    self.ended.insert(end.file);
                }
            }
            Entry::Cut { file, cut, .. } => {
                if let Some(file) = self.files.get_mut(&file) {
                    file.add_cut(cut);
                }
            }
            Entry::Gone { file, .. } => {
                self.files.remove(&file);
                self.ended.remove(&file);
                self.gone.insert(file);
            }
        }
    }

    /// Returns a number that no file has had.
    fn next(&self, found: &[Found]) -> u32 {
        let named = found.iter().filter_map(|found| {
            let data = found.name.strip_suffix(".idx").unwrap_or(&found.name);
            FileName::parse(data).map(|name| name.number)
        });
        let known = self.files.keys().chain(&self.gone).copied();
        named
            .chain(known)
            .max()
            .map_or(1, |last| last.saturating_add(1))
    }
}

/// Opens the newest valid catalogue, or creates one. Returns the number of damaged entries too, and the other
/// catalogues, which are to be removed.
fn open_catalogue(
    files: &dyn Files,
    folder: &Path,
    found: &[Found],
    known: &mut Known,
) -> io::Result<(Catalogue, u64, Vec<PathBuf>)> {
    let mut generations: Vec<u32> = found.iter().filter_map(|f| generation(&f.name)).collect();
    generations.sort_unstable_by(|a, b| b.cmp(a));
    let mut opened = None;
    let mut others = Vec::new();
    for &number in &generations {
        if opened.is_none() {
            let mut take = |entry| known.take(entry);
            opened = Catalogue::open(files, folder, number, &mut take)?;
            if opened.is_some() {
                continue;
            }
        }
        others.push(folder.join(super::name::catalogue(number)));
    }
    if let Some((catalogue, damaged)) = opened {
        return Ok((catalogue, damaged, others));
    }
    let generation = generations.first().map_or(1, |last| last.saturating_add(1));
    let catalogue = Catalogue::create(files, folder, generation, std::iter::empty())?;
    Ok((catalogue, 0, others))
}

/// The result of mending a file.
enum Mended {
    /// It ends with whole packets.
    Whole {
        /// The packets after the last listed chunk, which are a chunk now.
        chunk: Option<Chunk>,
        /// The size of the file.
        bytes: u64,
        /// The bytes that were cut.
        cut: u64,
    },
    /// Its chunks are not known, and it is too long to find them now.
    Unlisted { bytes: u64 },
    /// It has no whole packet.
    Empty,
}

/// Cuts a file after its last whole packet, and gives it an end.
fn mend(files: &dyn Files, path: &Path, file: &Recorded) -> io::Result<Mended> {
    let reading = files.read(path)?;
    let len = reading.metadata()?.len();
    let from = file.end.min(len);
    if len - from > LONGEST_TAIL {
        return Ok(Mended::Unlisted { bytes: len });
    }
    let codec = file.name.compressed.then_some(CODEC);
    let mut tail = vec![0; usize::try_from(len - from).unwrap_or(0)];
    reading.read_exact_at(&mut tail, from)?;
    if from < file.end {
        // Listed chunks are missing; a check reports them. The file stays readable up to there.
        return Ok(Mended::Unlisted { bytes: len });
    }
    let records = match codec {
        // The start of the file's frame is in the tail.
        Some(_) if from == 0 => decompressed_start(&tail),
        Some(codec) => decompressed_start(&[codec.begin(), &tail].concat()),
        None => tail.clone(),
    };
    let context = Context::of(&reading, file, &records)?;
    let (whole, _) = whole_blocks(&records, context.byte_order);
    let whole = usize::try_from(whole).unwrap_or(0);
    let whole = records.get(..whole).unwrap_or_default();
    let writing = files.write(path)?.into_file()?;
    if !whole.is_empty() {
        let chunk = write_tail(&writing, file, whole, &context)?;
        let bytes = writing.metadata()?.len();
        let cut = (records.len() - whole.len()) as u64;
        return Ok(Mended::Whole { chunk, bytes, cut });
    }
    if from == 0 {
        writing.set_len(0)?;
        return Ok(Mended::Empty);
    }
    let end = codec.map_or(&b""[..], Codec::end);
    let bytes = from + end.len() as u64;
    writing.write_all_at(end, from)?;
    writing.set_len(bytes)?;
    let cut = if tail == end { 0 } else { tail.len() as u64 };
    Ok(Mended::Whole {
        chunk: None,
        bytes,
        cut,
    })
}

/// Writes whole blocks as a chunk after the last listed one, and the end of the file.
fn write_tail(
    writing: &File,
    file: &Recorded,
    whole: &[u8],
    context: &Context,
) -> io::Result<Option<Chunk>> {
    let (mut stored, mut offset) = (Vec::new(), file.end);
    let codec = file.name.compressed.then_some(CODEC);
    match codec {
        Some(codec) => {
            if offset == 0 {
                writing.write_all_at(codec.begin(), 0)?;
                offset = codec.begin().len() as u64;
            }
            codec.compressor()?.compress(whole, &mut stored)?;
        }
        None => stored.extend_from_slice(whole),
    }
    writing.write_all_at(&stored, offset)?;
    let after = offset + stored.len() as u64;
    let end = codec.map_or(&b""[..], Codec::end);
    writing.write_all_at(end, after)?;
    writing.set_len(after + end.len() as u64)?;
    writing.sync_data()?;
    let written = WrittenChunk {
        offset,
        len: stored.len() as u64,
        base: file.base,
        base_len: whole.len() as u64,
        checksum: checksum(&stored),
        summary: summarize_blocks(whole, context.byte_order, &context.interfaces),
    };
    Ok(Chunk::of(file.name.number, &written))
}

/// The facts in a file's header that its packets need.
struct Context {
    byte_order: ByteOrder,
    interfaces: InterfaceTable,
}

/// The bytes at a file's beginning in which its header is.
const HEADER: usize = 64 << 10;

impl Context {
    /// Reads the header; `records` are the tail's, which begin with it if no chunk is listed.
    fn of(reading: &File, file: &Recorded, records: &[u8]) -> io::Result<Self> {
        let header = match file.end {
            0 => records.to_vec(),
            end => {
                let end = usize::try_from(end).unwrap_or(usize::MAX).min(HEADER);
                let mut start = vec![0; end];
                reading.read_exact_at(&mut start, 0)?;
                match file.name.compressed {
                    true => decompressed_start(&start),
                    false => start,
                }
            }
        };
        let mut options = ReadOptions::default();
        (options.read_ahead, options.map) = (false, None);
        let name = file.name.to_string();
        let stream = Box::new(io::Cursor::new(header).take(u64::MAX));
        let Ok(mut reader) = Reader::new(stream, &name, &options) else {
            return Ok(Self {
                byte_order: ByteOrder::NATIVE,
                interfaces: InterfaceTable::default(),
            });
        };
        // The bytes may end within a block.
        while let Ok(Some(_)) = reader.next() {}
        Ok(Self {
            byte_order: reader.byte_order(),
            interfaces: InterfaceTable::new(0, reader.interfaces()),
        })
    }
}
