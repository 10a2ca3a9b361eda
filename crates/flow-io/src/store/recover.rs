//! Opens the logs of a store, and stores the records that an earlier run has left in them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use ringtap_sys::output::{self, Access};

use super::Batch;
use super::columns::Columns;
use super::encode::Decoder;
use super::folder::Folder;
use super::log::{self, Found, LOG_SIZE, LOGS, Log, LogFile};
use super::names::{self, Leaf};
use super::worker::write_leaf;
use super::{StoreError, StoreReport};

/// The logs of a store.
#[derive(Default)]
pub(super) struct Logs {
    /// One for each batch that there can be at once.
    pub(super) unused: Vec<Log>,
    /// Their files.
    pub(super) files: Vec<Arc<LogFile>>,
}

impl Logs {
    /// Returns another batch like this one. `None` if batches have logs, and all are in use.
    pub(super) fn another(&mut self, like: &Batch) -> Option<Batch> {
        let mut batch = Batch::of(Columns::new(Arc::clone(&like.columns.fields)));
        if !self.files.is_empty() {
            batch.log = Some(self.unused.pop()?);
        }
        Some(batch)
    }
}

/// Stores the records of earlier logs. Then opens logs for new ones if they are `wanted`, and removes the files
/// otherwise.
pub(super) fn open(
    folder: &mut Folder,
    access: Access,
    wanted: bool,
    report: &mut StoreReport,
) -> Result<Logs, StoreError> {
    let mut logs = Logs::default();
    if wanted {
        let reserved = folder.reserve(LOGS as u64 * LOG_SIZE, report);
        reserved.map_err(|source| StoreError::File {
            path: folder.path.clone(),
            source,
        })?;
    }
    for index in 0..LOGS {
        let path = folder.path.join(names::log_name(index));
        let failed = |source| StoreError::File {
            path: path.clone(),
            source,
        };
        if !wanted && !path.try_exists().map_err(failed)? {
            continue;
        }
        let file = open_log(&path, access).map_err(failed)?;
        take_over(folder, &file, report).map_err(failed)?;
        if wanted {
            let file = Arc::new(LogFile::new(file));
            let log = Log::new(Arc::clone(&file), index).map_err(failed)?;
            logs.unused.push(log);
            logs.files.push(file);
        } else {
            // If the folder forgets that it was removed, it is empty.
            let emptied = file.set_len(0).and_then(|()| file.sync_all());
            emptied
                .and_then(|()| fs::remove_file(&path))
                .map_err(failed)?;
        }
    }
    Ok(logs)
}

/// Opens a log, or creates it. It has one name and is no link: another user may own the folder.
fn open_log(path: &Path, access: Access) -> io::Result<File> {
    let other = || io::Error::other("this is no log of a store");
    let is_log = |found: &fs::Metadata| found.is_file() && found.nlink() == 1;
    match fs::symlink_metadata(path) {
        Ok(found) if !is_log(&found) => return Err(other()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = output::open(path, access, true)?.file;
    let (opened, named) = (file.metadata()?, fs::symlink_metadata(path)?);
    let is_same = (opened.dev(), opened.ino()) == (named.dev(), named.ino());
    if is_same && is_log(&opened) {
        Ok(file)
    } else {
        Err(other())
    }
}

/// Stores the records of a log.
fn take_over(folder: &mut Folder, file: &File, report: &mut StoreReport) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.take(LOG_SIZE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LOG_SIZE {
        return Err(io::Error::other("it is longer than a log of a store"));
    }
    let Some(found) = log::read(&bytes)? else {
        return Ok(());
    };
    let Found { number, batch, cut } = found;
    report.cut_bytes += cut as u64;
    for (place, mut rows) in batch.by_leaf() {
        let leaf = &batch.leaves[usize::from(place)];
        if has_batch(folder, leaf, number)? {
            continue;
        }
        let records = rows.len() as u64;
        let bytes = write_leaf(folder, (&batch, Some(number)), leaf, &mut rows, report)?;
        report.recovered += records;
        report.records += records;
        report.files += 1;
        report.bytes += bytes;
    }
    Ok(())
}

/// Returns whether a file of the leaf was made of the batch: the crash came before its log was emptied.
fn has_batch(folder: &Folder, leaf: &Leaf, number: u64) -> io::Result<bool> {
    let Some(files) = folder.leaves.get(leaf) else {
        return Ok(false);
    };
    let leaf = folder.path.join(leaf.path());
    for name in files.keys() {
        let file = folder.files.read(&leaf.join(name))?;
        // A damaged file must not end every start.
        let read = catch_unwind(AssertUnwindSafe(|| Decoder::open(file)));
        match read {
            Ok(Ok(decoder)) if decoder.batch() == Some(number) => return Ok(true),
            Ok(Err(error)) if error.raw_os_error().is_some() => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}
