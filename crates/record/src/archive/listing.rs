//! The files of an archive, from the side that reads them: those with packets of a window of time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::entry::{Chunk, Cut, End, Entries, Entry};
use super::files::Files;
use super::name::{self, FileName};

/// A window of time, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first time in it.
    pub from: Option<i64>,
    /// The first time after it.
    pub to: Option<i64>,
}

/// The files with packets of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The files, in the order in which they were begun.
    pub files: Vec<Listed>,
    /// The parts outside of the window.
    pub skipped: Skipped,
    /// The packets that were cut about the time of the window, by device.
    pub cut: BTreeMap<String, Cut>,
    /// The number of damaged entries in the catalogue.
    pub damaged: u64,
}

/// A file with packets of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: FileName,
    /// Its end. `None` while it grows, and after a crash.
    pub end: Option<End>,
    /// The chunks with packets of the window, and those that readers need. Empty if they are not listed: then
    /// the file must be read as a whole.
    pub chunks: Vec<Chunk>,
}

/// The parts of an archive that are not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The number of chunks.
    pub chunks: u64,
    /// Their bytes in the files.
    pub bytes: u64,
    /// Their packets.
    pub packets: u64,
}

impl Window {
    /// Returns whether packets of these times may be in the window.
    fn meets(&self, times: Option<(i64, i64)>) -> bool {
        let Some((first, last)) = times else {
            return true;
        };
        self.from.is_none_or(|from| last >= from) && self.to.is_none_or(|to| first < to)
    }

    /// Returns whether a time is in the window.
    #[must_use]
    pub fn has(&self, time: i64) -> bool {
        self.meets(Some((time, time)))
    }
}

impl Skipped {
    /// Counts a chunk.
    pub fn add(&mut self, chunk: &Chunk) {
        self.chunks += 1;
        self.bytes += u64::from(chunk.len);
        self.packets += u64::from(chunk.packets);
    }
}

impl Listed {
    /// Returns whether all of its chunks are known.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.end.is_none_or(|end| end.is_listed)
    }

    /// Returns the earliest time of the packets in the window, as far as it is known.
    #[must_use]
    pub fn first(&self) -> Option<i64> {
        let first = self.chunks.iter().filter_map(|chunk| chunk.times);
        let first = first.map(|(first, _)| first).min();
        first.or_else(|| self.end.and_then(|end| end.times).map(|(first, _)| first))
    }
}

impl Listing {
    /// Reads a catalogue, also while a recorder appends to it. `None` if it is not a valid one.
    ///
    /// # Errors
    /// Reading failed.
    pub fn read(stream: impl Read, window: Window) -> io::Result<Option<Self>> {
        let Some(mut entries) = Entries::new(BufReader::with_capacity(1 << 16, stream))? else {
            return Ok(None);
        };
        let mut found = Contents::default();
        while let Some(entry) = entries.next()? {
            found.take(entry, window);
        }
        let mut listing = found.listing(window);
        listing.damaged = entries.damaged();
        Ok(Some(listing))
    }

    /// Returns the devices of the files, each once, in alphabetic order.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        let mut devices: Vec<String> = self.files.iter().map(|f| f.name.device.clone()).collect();
        devices.sort();
        devices.dedup();
        devices
    }
}

/// The contents of a catalogue by the numbers of files, while it is read.
#[derive(Default)]
struct Contents {
    files: BTreeMap<u32, Listed>,
    skipped: BTreeMap<u32, Skipped>,
    cut: BTreeMap<u32, Cut>,
}

impl Contents {
    fn take(&mut self, entry: Entry, window: Window) {
        match entry {
            Entry::File(name) => {
                let listed = Listed {
                    end: None,
                    chunks: Vec::new(),
                    name,
                };
                self.files.insert(listed.name.number, listed);
            }
            Entry::Chunk(chunk) => {
                let Some(listed) = self.files.get_mut(&chunk.file) else {
                    return;
                };
                let is_wanted = chunk.packets > 0 && window.meets(chunk.times);
                if is_wanted || chunk.describes {
                    listed.chunks.push(chunk);
                } else if chunk.packets > 0 {
                    self.skipped.entry(chunk.file).or_default().add(&chunk);
                }
            }
            Entry::End(end) => {
                if let Some(listed) = self.files.get_mut(&end.file) {
                    listed.end = Some(end);
                }
            }
            Entry::Cut { file, times, cut } => {
                if window.meets(Some(times)) {
                    self.cut.entry(file).or_default().add(cut);
                }
            }
            Entry::Gone { file, .. } => {
                self.files.remove(&file);
                self.skipped.remove(&file);
                self.cut.remove(&file);
            }
        }
    }

    fn listing(self, window: Window) -> Listing {
        let mut listing = Listing::default();
        for listed in self.files.into_values() {
            if let Some(&cut) = self.cut.get(&listed.name.number) {
                let device = listed.name.device.clone();
                listing.cut.entry(device).or_default().add(cut);
            }
            let is_wanted = match listed.end {
                Some(end) if !end.is_listed => window.meets(end.times),
                _ => listed.chunks.iter().any(|chunk| chunk.packets > 0),
            };
            if is_wanted {
                listing.files.push(listed);
            }
        }
        for one in self.skipped.into_values() {
            listing.skipped.chunks += one.chunks;
            listing.skipped.bytes += one.bytes;
            listing.skipped.packets += one.packets;
        }
        listing
    }
}

/// The number of later generations that are tried if a recorder has renewed its catalogue in the meantime.
const LATER: u32 = 64;

/// Opens the catalogue of a folder in which these names were found. `None` if there is no valid one.
///
/// # Errors
/// It cannot be read.
pub fn open_catalogue<'n>(
    files: &dyn Files,
    folder: &Path,
    names: impl IntoIterator<Item = &'n str>,
) -> io::Result<Option<File>> {
    let mut found: Vec<u32> = names.into_iter().filter_map(name::generation).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    let Some(last) = found.first() else {
        return Ok(None);
    };
    let later = (last + 1)..last.saturating_add(LATER);
    for generation in found.iter().copied().chain(later) {
        let file = match files.read(&folder.join(name::catalogue(generation))) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // One that is being written has no header yet.
        if Entries::new(&file)?.is_some() {
            io::Seek::seek(&mut &file, io::SeekFrom::Start(0))?;
            return Ok(Some(file));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::entry::{Reason, header};
    use super::*;

    fn chunk(file: u32, times: Option<(i64, i64)>, packets: u32) -> Entry {
        Entry::Chunk(Chunk {
            file,
            offset: 0,
            len: 10,
            base: 0,
            base_len: 20,
            packets,
            times,
            checksum: 0,
            describes: packets == 0,
        })
    }

    fn cut(file: u32, times: (i64, i64), packets: u64) -> Entry {
        let bytes = packets * 100;
        let cut = Cut { packets, bytes };
        Entry::Cut { file, times, cut }
    }

    fn file(number: u32, begun: i64) -> Entry {
        Entry::File(FileName {
            begun,
            number,
            device: "d".into(),
            compressed: false,
        })
    }

    #[test]
    fn only_chunks_of_the_window_are_listed() {
        let entries = [
            file(1, 0),
            chunk(1, None, 0),
            chunk(1, Some((0, 9)), 5),
            chunk(1, Some((8, 12)), 6),
            file(2, 5),
            chunk(2, None, 0),
            chunk(2, Some((30, 40)), 7),
            file(3, 50),
            chunk(3, None, 0),
            chunk(3, Some((10, 11)), 8),
            cut(1, (0, 5), 1),
            cut(1, (5, 10), 2),
            cut(2, (29, 35), 4),
            cut(3, (10, 11), 8),
            Entry::Gone {
                file: 3,
                reason: Reason::Budget,
            },
        ];
        let mut bytes = header().to_vec();
        entries
            .iter()
            .for_each(|entry| bytes.extend(entry.to_bytes()));
        let window = Window {
            from: Some(10),
            to: Some(30),
        };
        let listing = Listing::read(&bytes[..], window).unwrap().unwrap();
        let [listed] = &listing.files[..] else {
            panic!("{:?}", listing.files);
        };
        let packets: Vec<u32> = listed.chunks.iter().map(|chunk| chunk.packets).collect();
        assert_eq!((listed.name.number, packets), (1, vec![0, 6]));
        assert_eq!(listed.first(), Some(8));
        let skipped = listing.skipped;
        assert_eq!(
            (skipped.chunks, skipped.bytes, skipped.packets),
            (2, 20, 12)
        );
        let cut = Cut {
            packets: 6,
            bytes: 600,
        };
        assert_eq!(listing.cut, BTreeMap::from([("d".to_owned(), cut)]));
        assert_eq!(listing.devices(), ["d"]);
        assert!(Listing::read(&b"x"[..], window).unwrap().is_none());
    }
}
