//! Opens the logs of a store, and stores the records that an earlier run has left in them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use ringtap_sys::output::{self, Access};

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

/// Stores the records of earlier logs. Then opens logs for new ones if they are `wanted`, and removes the files
/// otherwise.
pub(super) fn open(
    folder: &mut Folder,
    access: Access,
    wanted: bool,
    report: &mut StoreReport,
) -> Result<Logs, StoreError> {
    let mut logs = Logs::default();
    for index in 0..LOGS {
        let path = folder.path.join(names::log_name(index));
        let failed = |source| StoreError::File {
            path: path.clone(),
            source,
        };
        if !wanted && !path.try_exists().map_err(failed)? {
            continue;
        }
        let opened = output::open(&path, access, true).map_err(failed)?;
        take_over(folder, &opened.file, report).map_err(failed)?;
        if wanted {
            let file = Arc::new(LogFile::new(opened.file));
            let log = Log::new(Arc::clone(&file), index).map_err(failed)?;
            logs.unused.push(log);
            logs.files.push(file);
        } else {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    if wanted {
        folder.charge(LOGS as u64 * LOG_SIZE);
    }
    Ok(logs)
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
    for (leaf, mut rows) in batch.by_leaf() {
        if has_batch(folder, leaf, number) {
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
fn has_batch(folder: &Folder, leaf: &Leaf, number: u64) -> bool {
    let Some(files) = folder.files_of(leaf) else {
        return false;
    };
    let is_of_batch = |path: &Path| {
        let decoder = folder.files.read(path).and_then(Decoder::open);
        decoder.is_ok_and(|decoder| decoder.batch() == Some(number))
    };
    let leaf = folder.path.join(leaf.path());
    files.keys().any(|name| is_of_batch(&leaf.join(name)))
}
