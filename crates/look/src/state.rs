//! The history of traffic in files, so that it outlives the process.
//!
//! There are two files, written by turns: a crash in the middle of one leaves the other whole. Each begins
//! with its number, the greater of which is the newer, and a checksum. Both are opened at the start, when
//! the process may still open files. Two files that are both damaged are kept aside, and history begins anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

use crate::Look;
use crate::history::{History, OTHERS};

/// The files in their folder.
const NAMES: [&str; 2] = ["history.a", "history.b"];
const MAGIC: [u8; 8] = *b"RTLOOK01";
/// Magic, number, length, checksum.
const HEADER: usize = 32;
/// The longest history that is read, in bytes.
const LONGEST: u64 = 256 << 20;

/// The saved history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saved {
    applications: Vec<String>,
    history: History,
}

/// A file of the history that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct StoreError {
    path: PathBuf,
    r#source: io::Error,
}

/// The files.
#[derive(Debug)]
pub struct Store {
    files: [(PathBuf, File); 2],
    /// The number of the newest one, and which that is.
    number: u64,
    newest: usize,
}

/// The content of the files at the start.
#[derive(Debug)]
pub enum Found {
    /// None: there was no history.
    Nothing,
    /// The history.
    History(Box<Saved>),
    /// Damaged files, which were renamed.
    Damaged(Vec<PathBuf>),
}

impl Store {
    /// Opens the files of a folder, and reads the newer one.
    ///
    /// # Errors
    /// A file cannot be opened, read or renamed.
    pub fn open(folder: &Path) -> Result<(Self, Found), StoreError> {
        let contents = NAMES.map(|name| read(&folder.join(name)));
        let [a, b] = contents;
        let contents = [a?, b?];
        let mut found = Found::Nothing;
        let mut newest = (0, 1);
        for (index, content) in contents.iter().enumerate() {
            if let Content::Whole(number, saved) = content
                && (*number > newest.0 || matches!(found, Found::Nothing))
            {
                newest = (*number, index);
                found = Found::History(saved.clone());
            }
        }
        let is_damaged = |content: &Content| matches!(content, Content::Damaged);
        if matches!(found, Found::Nothing) && contents.iter().any(is_damaged) {
            let mut aside = Vec::new();
            for (name, content) in NAMES.iter().zip(&contents) {
                if is_damaged(content) {
                    aside.push(put_aside(&folder.join(name))?);
                }
            }
            found = Found::Damaged(aside);
        }
        let [a, b] = NAMES.map(|name| open(folder.join(name)));
        let store = Self {
            files: [a?, b?],
            number: newest.0,
            newest: newest.1,
        };
        Ok((store, found))
    }

    /// Writes a history into the older file, and waits until the disk has it.
    ///
    /// # Errors
    /// The file cannot be written; the other one is as it was.
    pub fn save(&mut self, saved: &Saved) -> Result<(), StoreError> {
        let older = 1 - self.newest;
        let (path, file) = &mut self.files[older];
        let failed = |source| StoreError {
            path: path.clone(),
            source,
        };
        let payload = serde_json::to_vec(saved).map_err(|error| failed(error.into()))?;
        write(file, self.number + 1, &payload).map_err(failed)?;
        self.number += 1;
        self.newest = older;
        Ok(())
    }
}

enum Content {
    Nothing,
    Damaged,
    Whole(u64, Box<Saved>),
}

fn open(path: PathBuf) -> Result<(PathBuf, File), StoreError> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    match options.open(&path) {
        Ok(file) => Ok((path, file)),
        Err(source) => Err(StoreError { path, source }),
    }
}

fn read(path: &Path) -> Result<Content, StoreError> {
    let failed = |source| StoreError {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::Nothing),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).map_err(failed)?;
    Ok(match decode(&bytes) {
        _ if bytes.is_empty() => Content::Nothing,
        Some((number, saved)) => Content::Whole(number, Box::new(saved)),
        None => Content::Damaged,
    })
}

fn decode(bytes: &[u8]) -> Option<(u64, Saved)> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let (magic, header) = header.split_at(MAGIC.len());
    let mut words = header.chunks_exact(8).map(|word| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        u64::from_le_bytes(bytes)
    });
    let (number, length, checksum) = (words.next()?, words.next()?, words.next()?);
    let payload = rest.get(..usize::try_from(length).ok()?)?;
    if magic != MAGIC || XxHash64::oneshot(number, payload) != checksum {
        return None;
    }
    let saved: Saved = serde_json::from_slice(payload).ok()?;
    saved.history.is_sound().then_some((number, saved))
}

fn write(file: &mut File, number: u64, payload: &[u8]) -> io::Result<()> {
    let checksum = XxHash64::oneshot(number, payload);
    let mut header = Vec::with_capacity(HEADER);
    header.extend(MAGIC);
    for word in [number, payload.len() as u64, checksum] {
        header.extend(word.to_le_bytes());
    }
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&header)?;
    file.write_all(payload)?;
    file.set_len((HEADER + payload.len()) as u64)?;
    file.sync_data()
}

/// Renames a damaged file; returns its new name.
fn put_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let mut aside = path.to_owned();
    for number in 1..1000 {
        aside.set_extension(format!(
            "{}.damaged-{number}",
            path.extension().unwrap_or_default().display()
        ));
        if !aside.exists() {
            break;
        }
    }
    match fs::rename(path, &aside) {
        Ok(()) => Ok(aside),
        Err(source) => Err(StoreError {
            path: path.to_owned(),
            source,
        }),
    }
}

impl Look {
    /// Returns what is to be kept.
    #[must_use]
    pub fn saved(&self) -> Saved {
        Saved {
            applications: self.applications.names().to_vec(),
            history: self.history.clone(),
        }
    }

    /// Takes a history that was kept. Call it before there is traffic.
    pub fn restore(&mut self, saved: Saved) {
        let Saved {
            applications,
            mut history,
        } = saved;
        let numbers: Vec<u16> = applications
            .iter()
            .map(|name| self.applications.number(name))
            .collect();
        history.renumber(|number| *numbers.get(usize::from(number)).unwrap_or(&OTHERS));
        self.history = history;
        self.has_history = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LookOptions;
    use crate::history::Count;

    fn look(bytes: u64) -> Look {
        let mut look = Look::new(LookOptions::default());
        let application = look.applications.number("dns");
        let count = Count { packets: 1, bytes };
        look.history
            .add(1_700_000_000_000_000_000, 17, application, count);
        look
    }

    fn bytes(found: Found) -> u64 {
        let Found::History(saved) = found else {
            panic!("a history, not {found:?}");
        };
        let mut look = Look::new(LookOptions::default());
        look.applications.number("another");
        look.restore(*saved);
        let at = Some(1_700_000_000_000);
        let series = look.series(crate::Split::Application, at, at);
        assert_eq!(series.series[0].name, "dns");
        series.series[0].bytes[0].unwrap()
    }

    #[test]
    fn the_newest_whole_file_is_the_history() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, found) = Store::open(folder.path()).unwrap();
        assert!(matches!(found, Found::Nothing));
        for round in 1..=5 {
            store.save(&look(round * 100).saved()).unwrap();
        }
        drop(store);
        assert_eq!(bytes(Store::open(folder.path()).unwrap().1), 500);
        // The fifth is in one of the two: torn, the fourth is left.
        let newest = NAMES
            .map(|name| folder.path().join(name))
            .into_iter()
            .max_by_key(|path| fs::read(path).unwrap()[8])
            .unwrap();
        let whole = fs::read(&newest).unwrap();
        fs::write(&newest, &whole[..whole.len() - 9]).unwrap();
        let (mut store, found) = Store::open(folder.path()).unwrap();
        assert_eq!(bytes(found), 400);
        store.save(&look(600).saved()).unwrap();
        assert_eq!(bytes(Store::open(folder.path()).unwrap().1), 600);
    }

    #[test]
    fn damaged_files_are_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            fs::write(
                folder.path().join(name),
                b"RTLOOK01 and nothing that follows",
            )
            .unwrap();
        }
        let (mut store, found) = Store::open(folder.path()).unwrap();
        let Found::Damaged(aside) = found else {
            panic!("damaged, not {found:?}");
        };
        assert_eq!(aside.len(), 2);
        assert!(aside.iter().all(|path| path.exists()));
        store.save(&look(7).saved()).unwrap();
        assert_eq!(bytes(Store::open(folder.path()).unwrap().1), 7);
    }

    #[test]
    fn no_bytes_are_a_history_by_chance() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(folder.path()).unwrap();
        store.save(&look(7).saved()).unwrap();
        let whole = fs::read(folder.path().join(NAMES[0])).unwrap();
        assert!(decode(&whole).is_some());
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            assert!(decode(&damaged).is_none(), "byte {at}");
        }
    }
}
