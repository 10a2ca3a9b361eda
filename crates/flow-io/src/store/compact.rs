//! Merging: the small files of an hour become large ones.
//!
//! The merged files are made in a folder beside the leaf. Then both folders are exchanged in one step (`RENAME_EXCHANGE`
//! of renameat2(2)), and the old one is removed. A program that lists the leaf finds the old files or the new ones, never
//! both, never neither. A program that holds the lock of readers ([`READERS_LOCK`](super::READERS_LOCK)) keeps the old files
//! until it ends, so that it can also open them later.
//!
//! The work is done in steps of a row group, between which records are written as they come. Row groups of many records
//! are copied; those of few are decoded and become large ones.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use ringtap_flow::schema::{FIELDS, Field};

use super::StoreReport;
use super::columns::Columns;
use super::encode::{Decoder, Encoder, Form, GROUP};
use super::folder::{Files, Folder};
use super::names::{self, HOUR, Leaf};

/// The bytes of a merged file, about.
const FILE: usize = 32 << 20;
/// The number of files that are worth another merge, in an hour that has been merged.
const AGAIN: usize = 16;
/// The seconds after the end of an hour before its files are merged: long flows of it may still end.
const REST: u64 = 300;

/// A merge that has begun.
pub(super) struct Merge {
    pub(super) leaf: Leaf,
    /// The leaf's files when the merge began.
    old: Files,
    waiting: VecDeque<String>,
    decoder: Option<Decoder>,
    columns: Columns,
    encoder: Option<Encoder>,
    merged: Files,
    records: u64,
    written: u64,
}

/// The progress of a step.
pub(super) enum Step {
    /// There is more to do.
    More,
    /// A reader holds the store.
    Held,
    /// The leaf is merged, or its files have changed in the meantime.
    Done,
}

/// Begins to merge the oldest leaf that needs it. `now_ns` is `None` at the end of a run, when no more files come.
pub(super) fn begin(folder: &Folder, now_ns: Option<u64>, failed: &[Leaf]) -> Option<Merge> {
    let is_closed = |leaf: &Leaf| match now_ns {
        Some(now) => (leaf.hour + 1) * HOUR + REST <= now / 1_000_000_000,
        None => true,
    };
    let needs = |files: &Files| {
        let merged = files
            .keys()
            .filter(|name| names::parse_file(name).is_some_and(|(_, is_merged)| is_merged));
        let merged = merged.count();
        let fresh = files.len() - merged;
        fresh >= if merged == 0 { 2 } else { AGAIN }
    };
    let (leaf, files) = folder
        .leaves
        .iter()
        .find(|(leaf, files)| is_closed(leaf) && needs(files) && !failed.contains(leaf))?;
    Some(Merge {
        leaf: leaf.clone(),
        old: files.clone(),
        waiting: files.keys().cloned().collect(),
        decoder: None,
        columns: Columns::new(Arc::from([])),
        encoder: None,
        merged: Files::new(),
        records: 0,
        written: 0,
    })
}

impl Merge {
    /// Does a part of the work.
    pub(super) fn step(
        &mut self,
        folder: &mut Folder,
        now_ns: u64,
        report: &mut StoreReport,
    ) -> io::Result<Step> {
        if folder.leaves.get(&self.leaf) != Some(&self.old) {
            self.abandon(folder);
            return Ok(Step::Done);
        }
        if self.columns.fields.is_empty() && !self.prepare(folder)? {
            return Ok(Step::Done);
        }
        let took = self.columns.rows < GROUP && self.take_group(folder)?;
        if !took && self.columns.rows == 0 {
            self.end_file(folder, now_ns)?;
            return self.replace(folder, report);
        }
        if !took {
            self.write_group()?;
        }
        let made = self.encoder.as_ref();
        if made.is_some_and(|encoder| encoder.bytes() >= FILE) {
            self.end_file(folder, now_ns)?;
        }
        Ok(Step::More)
    }

    /// Copies or decodes the next row group, or opens the next file. Returns false after the last one.
    fn take_group(&mut self, folder: &Folder) -> io::Result<bool> {
        if let Some(mut decoder) = self.decoder.take() {
            let is_whole = decoder.is_whole(&self.columns.fields)?;
            if is_whole {
                self.records += decoder.copy(begun(&mut self.encoder, &self.columns)?)?;
            }
            if is_whole || decoder.group(&mut self.columns)? {
                self.decoder = Some(decoder);
                return Ok(true);
            }
        }
        let Some(name) = self.waiting.pop_front() else {
            return Ok(false);
        };
        let path = folder.path.join(self.leaf.path()).join(name);
        self.decoder = Some(Decoder::open(folder.files.read(&path)?)?);
        Ok(true)
    }

    /// Finds out which columns the files have. Returns false if there is no room for a second copy of them.
    fn prepare(&mut self, folder: &Folder) -> io::Result<bool> {
        if !folder.has_room(self.old.values().sum()) {
            return Ok(false);
        }
        let mut has = [false; FIELDS.len()];
        for name in self.old.keys() {
            let path = folder.path.join(self.leaf.path()).join(name);
            for field in Decoder::open(folder.files.read(&path)?)?.fields()? {
                let at = FIELDS.iter().position(|other| other.name == field.name);
                has[at.unwrap_or(0)] = true;
            }
        }
        let fields: Vec<&'static Field> = FIELDS
            .iter()
            .zip(has)
            .filter_map(|(field, has)| has.then_some(field))
            .collect();
        self.columns = Columns::new(fields.into());
        Ok(true)
    }

    fn write_group(&mut self) -> io::Result<()> {
        let count = u32::try_from(self.columns.rows).unwrap_or(u32::MAX);
        let mut rows: Vec<u32> = (0..count).collect();
        begun(&mut self.encoder, &self.columns)?.group(&self.columns, &mut rows)?;
        self.records += u64::from(count);
        self.columns.clear();
        Ok(())
    }

    fn end_file(&mut self, folder: &mut Folder, now_ns: u64) -> io::Result<()> {
        let Some(encoder) = self.encoder.take() else {
            return Ok(());
        };
        self.written += encoder.rows;
        let bytes = encoder.finish()?;
        let size = bytes.len() as u64;
        if !folder.has_room(size) {
            let full = "no room for merged files within the limit of --retain";
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, full));
        }
        let name = folder.new_name(true, now_ns);
        folder.write(&self.leaf.next().join(&name), &bytes)?;
        folder.charge(size);
        self.merged.insert(name, size);
        Ok(())
    }

    fn replace(&mut self, folder: &mut Folder, report: &mut StoreReport) -> io::Result<Step> {
        debug_assert_eq!(self.records, self.written);
        if !folder.replace(&self.leaf, self.merged.clone())? {
            return Ok(Step::Held);
        }
        self.merged.clear();
        report.merged_files += self.old.len() as u64;
        Ok(Step::Done)
    }

    /// Removes the files that were made.
    pub(super) fn abandon(&mut self, folder: &mut Folder) {
        folder.discard(&self.leaf, &std::mem::take(&mut self.merged));
    }
}

/// Returns the file that is being made, begun if there is none.
fn begun<'a>(file: &'a mut Option<Encoder>, columns: &Columns) -> io::Result<&'a mut Encoder> {
    let form = Form {
        lasts: true,
        batch: None,
    };
    Ok(match file {
        Some(encoder) => encoder,
        none => none.insert(Encoder::new(&columns.fields, form)?),
    })
}
