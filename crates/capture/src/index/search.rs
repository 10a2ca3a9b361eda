//! Opens a capture for a search: with its index, if it has one.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use ringtap_filter::search::Need;
use ringtap_packet::Timestamp;
use ringtap_savefile::index::{IndexError, IndexReader, Keys, Skips, Stamp, Wanted, path_for};
use ringtap_savefile::{ReadError, ReadOptions, Reader};

use crate::engines::{FileSource, check_first_interfaces};
use crate::{Filter, Result};

/// Bytes of an index that are read at once.
const BUFFER: usize = 256 << 10;

/// The times of a search, beside its filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The first time that matches.
    pub from: Option<Timestamp>,
    /// The first time that no longer matches.
    pub to: Option<Timestamp>,
}

/// The use of a file's index.
#[derive(Debug)]
pub enum IndexUse {
    /// There is none, or it would not have helped.
    None,
    /// Stretches are skipped.
    Used {
        /// The number of their packets.
        packets: u64,
        /// Their bytes, uncompressed.
        bytes: u64,
    },
    /// There is an unusable index.
    Ignored {
        /// Its name.
        path: PathBuf,
        /// The reason.
        reason: IndexError,
    },
}

/// Opens a capture file like [`crate::open_file`], to search packets of certain times that match the filter.
/// Stretches without any, by the file's index ([`path_for`]), are not read. All matching packets come, with
/// others.
///
/// The index is used only if it was made for the file in its present state.
///
/// # Errors
/// The same errors as [`crate::open_file`]. A corrupt index is not an error.
pub fn open_indexed(
    path: &Path,
    options: &ReadOptions,
    filter: Option<&Filter>,
    search: &Search,
) -> Result<(FileSource, IndexUse)> {
    open_indexed_by(&|path| File::open(path), path, options, filter, search)
}

/// The same as [`open_indexed`], for a process with its own way to open files: `open` opens the capture and
/// its index. It must not wait for a FIFO's writer.
///
/// # Errors
/// The same errors as [`open_indexed`].
pub fn open_indexed_by(
    open: &dyn Fn(&Path) -> io::Result<File>,
    path: &Path,
    options: &ReadOptions,
    filter: Option<&Filter>,
    search: &Search,
) -> Result<(FileSource, IndexUse)> {
    let open_file = || {
        let name = path.display().to_string();
        let file = open(path).map_err(|error| ReadError::unopened(&name, error))?;
        FileSource::from_file(file, &name, options, filter)
    };
    let need = filter.map_or(Need::Nothing, Filter::need);
    let selective = need != Need::Nothing || *search != Search::default();
    let planned = match selective {
        true => plan(open, path, &need, search),
        false => Ok(None),
    };
    let (file, skips) = match planned {
        Ok(Some(planned)) => planned,
        Ok(None) => return Ok((open_file()?, IndexUse::None)),
        Err(reason) => {
            let source = open_file()?;
            let path = path_for(path);
            return Ok((source, IndexUse::Ignored { path, reason }));
        }
    };
    let used = IndexUse::Used {
        packets: skips.packets(),
        bytes: skips.bytes(),
    };
    let name = path.display().to_string();
    if let Some(filter) = filter {
        check_first_interfaces(&file, &name, filter)?;
    }
    let reader = Reader::skipping(file, &name, options, skips)?;
    Ok((FileSource::new(reader, name, filter)?, used))
}

/// Returns the file, and the parts that need not be read. `None` if it has no index, or nearly all of it must
/// be read.
fn plan(
    open: &dyn Fn(&Path) -> io::Result<File>,
    path: &Path,
    need: &Need,
    search: &Search,
) -> std::result::Result<Option<(File, Skips)>, IndexError> {
    /// The share of a file that must be skipped to be worth it: files that are read completely are read by
    /// two threads.
    const SHARE: u64 = 4;
    let name = path_for(path);
    // Opening something else than a file may wait for ever: a FIFO without a writer.
    if name.metadata().is_ok_and(|index| !index.is_file()) {
        return Ok(None);
    }
    let index = match open(&name) {
        Ok(index) => index,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Errors of the capture itself are found when it is opened.
    let Ok(file) = open(path) else {
        return Ok(None);
    };
    if !index.metadata()?.is_file() || !file.metadata()?.is_file() {
        return Ok(None);
    }
    let (skips, indexed) = skips(&file, index, need, search)?;
    let worth = skips.bytes() > indexed / SHARE;
    Ok(worth.then_some((file, skips)))
}

/// Returns the parts of a capture that need not be read, by its index, and the number of bytes that the index
/// covers.
///
/// # Errors
/// The index is unusable.
pub fn skips(
    capture: &File,
    index: impl Read,
    need: &Need,
    search: &Search,
) -> std::result::Result<(Skips, u64), IndexError> {
    let stamp = Stamp::of(capture)?;
    let mut entries = IndexReader::new(BufReader::with_capacity(BUFFER, index), &stamp)?;
    let (mut skips, mut indexed) = (Skips::default(), 0_u64);
    while let Some(entry) = entries.next_entry()? {
        indexed = indexed.saturating_add(entry.len);
        if let Some(seek) = entry.seek {
            skips.add_seek(seek);
        }
        let too_early = search.from.is_some_and(|from| entry.last < from);
        let too_late = search.to.is_some_and(|to| entry.first >= to);
        if too_early || too_late || !may_have(&entry.keys, need) {
            skips.add(entry.offset, entry.len, entry.packets);
        }
    }
    Ok((skips, indexed))
}

/// Returns the parts of a capture that a search need not read, by its index, as [`open_indexed`] does.
///
/// # Errors
/// The index is unusable.
pub fn skips_of(
    capture: &File,
    index: impl Read,
    filter: Option<&Filter>,
    search: &Search,
) -> std::result::Result<Skips, IndexError> {
    let need = filter.map_or(Need::Nothing, Filter::need);
    skips(capture, index, &need, search).map(|(skips, _)| skips)
}

/// Returns whether a packet with some of the keys may match.
fn may_have(keys: &Keys, need: &Need) -> bool {
    match *need {
        Need::Nothing => true,
        Need::All(ref parts) => parts.iter().all(|part| may_have(keys, part)),
        Need::Any(ref parts) => parts.iter().any(|part| may_have(keys, part)),
        Need::Ip4 { address, mask } => keys.ip4.may_have(masked(address, mask)),
        Need::Ip4Range { first, last } => keys.ip4.may_have(Wanted::Range(first, last)),
        Need::Ip6 { address, mask } => keys.ip6.may_have(masked(address, mask)),
        Need::Port { first, last } => keys.ports.may_have(Wanted::Range(first, last)),
    }
}

fn masked<T>(value: T, mask: T) -> Wanted<T> {
    Wanted::Masked { value, mask }
}
