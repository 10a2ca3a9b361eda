//! Opening a capture for a search: with its index, where it has one.

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

/// What is searched for, beside what the filter accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The first time that counts.
    pub from: Option<Timestamp>,
    /// The first time that does not count any more.
    pub to: Option<Timestamp>,
}

/// What became of a file's index.
#[derive(Debug)]
pub enum IndexUse {
    /// There is none, or it would not have helped.
    None,
    /// Stretches are passed over.
    Used {
        /// Packets in them.
        packets: u64,
        /// Their bytes, uncompressed.
        bytes: u64,
    },
    /// There is one that can't be used.
    Ignored {
        /// Its name.
        path: PathBuf,
        /// Why.
        reason: IndexError,
    },
}

/// As [`crate::open_file`], to look for packets of certain times that the filter accepts: stretches that have
/// none by the file's index ([`path_for`]) are not read. All packets that are looked for come, with
/// others.
///
/// The index was made for the file as it is, or is not used.
///
/// # Errors
/// As [`crate::open_file`]. A damaged index is not an error.
pub fn open_indexed(
    path: &Path,
    options: &ReadOptions,
    filter: Option<&Filter>,
    search: &Search,
) -> Result<(FileSource, IndexUse)> {
    open_indexed_by(&|path| File::open(path), path, options, filter, search)
}

/// As [`open_indexed`] for a process that opens files in a way of its own: `open` opens the capture and
/// its index. It must not wait for a writer where that is a FIFO.
///
/// # Errors
/// As [`open_indexed`].
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

/// The file, and what of it is not to be read; none where it has no index, or nearly all of it has to
/// be read.
fn plan(
    open: &dyn Fn(&Path) -> io::Result<File>,
    path: &Path,
    need: &Need,
    search: &Search,
) -> std::result::Result<Option<(File, Skips)>, IndexError> {
    /// The share of a file that must be left out to be worth it: files that are read whole are read
    /// by two threads.
    const SHARE: u64 = 4;
    let name = path_for(path);
    // Opening what is no file may wait for ever: a FIFO without a writer.
    if name.metadata().is_ok_and(|index| !index.is_file()) {
        return Ok(None);
    }
    let index = match open(&name) {
        Ok(index) => index,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // What is wrong with the capture itself is found when it is opened.
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

/// What of a capture need not be read, by its index, to find packets that meet the need; and how
/// many bytes of it the index is about.
///
/// # Errors
/// The index can't be used.
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

/// Whether a packet with some of the keys may meet the need.
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
