//! The thread that writes batches, merges files and removes old ones, in this order of importance.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::compact::{self, Merge, Step};
use super::encode::{Encoder, Form, WHOLE};
use super::folder::Folder;
use super::log::{LOGS, Log, LogFile};
use super::names::Leaf;
use super::{Batch, StoreError, StoreReport, locked, now};

/// How long the thread waits for records before it looks for other work.
const TICK: Duration = Duration::from_millis(500);
/// The time between two looks for old files.
const LOOK: Duration = Duration::from_secs(10);
/// The time after which leaves that could not be merged are tried again.
const AGAIN: Duration = Duration::from_secs(3600);
/// The time between two tries to replace files that a reader holds, at the end of a run.
const PAUSE: Duration = Duration::from_millis(50);
/// The number of these tries.
const TRIES: u32 = 40;
/// The batches that wait while the disk takes none, at most. Another one is being filled, and one may come; each may have
/// a log.
const REFUSED: usize = LOGS - 2;

pub(super) struct Worker {
    pub(super) folder: Folder,
    /// Whether records come from a file: merging then waits for the end.
    pub(super) is_offline: bool,
    pub(super) notify: fn(&str),
    pub(super) report: Arc<Mutex<StoreReport>>,
    pub(super) spares: SyncSender<Batch>,
    /// The files of logs.
    pub(super) logs: Vec<Arc<LogFile>>,
    /// Batches that the disk has not taken, as a whole or in part, the oldest first.
    pub(super) refused: VecDeque<Batch>,
}

/// The failures so far.
#[derive(Default)]
struct Failures {
    /// The first error of a batch.
    first: Option<io::Error>,
    /// Whether people know that the disk does not take records.
    is_failing: bool,
    /// Whether people know that records are lost.
    is_losing: bool,
    /// The leaves that could not be merged.
    leaves: Vec<Leaf>,
    /// Whether a log could not be brought to the disk.
    logs: bool,
}

impl Worker {
    /// Works until no more batches come.
    pub(super) fn run(mut self, batches: &Receiver<Batch>) -> Result<(), StoreError> {
        let mut failures = Failures::default();
        let mut merge: Option<Merge> = None;
        let (mut looked, mut forgot) = (None::<Instant>, Instant::now());
        let mut wait = TICK;
        loop {
            let received = batches.recv_timeout(wait);
            let is_idle = received.is_err();
            self.sync_logs(&mut failures);
            match received {
                Ok(batch) => self.take(batch, &mut failures),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                looked = Some(Instant::now());
                self.remove_old();
                self.write_refused(&mut failures);
                if forgot.elapsed() >= AGAIN {
                    forgot = Instant::now();
                    failures.leaves.clear();
                }
                if merge.is_none() && !self.is_offline {
                    merge = compact::begin(&self.folder, Some(now()), &failures.leaves);
                }
            }
            if is_idle {
                wait = self.work_on(&mut merge, &mut failures);
            }
        }
        if let Some(mut merge) = merge {
            merge.abandon(&mut self.folder);
        }
        self.remove_old();
        self.write_refused(&mut failures);
        self.leave_refused(&mut failures);
        if self.is_offline {
            self.merge_all(&mut failures);
        }
        locked(&self.report).total_bytes = self.folder.total;
        match failures.first {
            Some(source) if self.is_offline => Err(StoreError::File {
                path: self.folder.path,
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Writes a batch, after those that were refused. If too many are refused, the oldest is lost.
    fn take(&mut self, batch: Batch, failures: &mut Failures) {
        self.refused.push_back(batch);
        self.write_refused(failures);
        // Records of a file can be read again.
        let most = if self.is_offline { 0 } else { REFUSED };
        while self.refused.len() > most
            && let Some(lost) = self.refused.pop_front()
        {
            let records = lost.len();
            self.release(lost);
            self.lose(records, failures);
        }
    }

    /// Writes the batches that wait. Those that the disk does not take continue to wait.
    fn write_refused(&mut self, failures: &mut Failures) {
        let waiting = std::mem::take(&mut self.refused);
        if waiting.is_empty() {
            return;
        }
        for mut batch in waiting {
            self.write(&mut batch, failures);
            match batch.len() {
                0 => self.release(batch),
                _ => self.refused.push_back(batch),
            }
        }
        if self.refused.is_empty() && std::mem::take(&mut failures.is_failing) {
            failures.is_losing = false;
            let folder = self.folder.path.display();
            (self.notify)(&format!("{folder}: takes records again"));
        }
    }

    /// Writes the records of a batch, and takes those from it that are on the disk.
    fn write(&mut self, batch: &mut Batch, failures: &mut Failures) {
        let number = batch.log.as_ref().and_then(Log::number);
        let mut done = Vec::new();
        for (place, mut rows) in batch.by_leaf() {
            let mut counts = StoreReport::default();
            let origin = (&*batch, number);
            let leaf = &batch.leaves[usize::from(place)];
            let written = write_leaf(&mut self.folder, origin, leaf, &mut rows, &mut counts);
            locked(&self.report).removed_files += counts.removed_files;
            if self.count(written, rows.len() as u64, failures) {
                done.push(place);
            }
            // Records of other batches come meanwhile.
            self.sync_logs(failures);
        }
        batch.remove(&done);
    }

    /// Gives an empty batch back to the thread that fills it.
    fn release(&self, mut batch: Batch) {
        batch.clear();
        // If enough are spare, this one is freed.
        let _ = self.spares.try_send(batch);
    }

    /// Ends with batches that the disk has not taken. Those that have a log stay in it, for the next start.
    fn leave_refused(&mut self, failures: &mut Failures) {
        self.sync_logs(failures);
        for batch in std::mem::take(&mut self.refused) {
            let logged = batch.logged();
            locked(&self.report).left_in_log += logged;
            self.lose(batch.len() - logged, failures);
        }
    }

    /// Counts records that the disk has not taken, and that nobody keeps.
    fn lose(&self, records: u64, failures: &mut Failures) {
        locked(&self.report).lost_disk += records;
        if records > 0 && !std::mem::replace(&mut failures.is_losing, true) {
            let folder = self.folder.path.display();
            (self.notify)(&format!("{folder}: records are lost"));
        }
    }

    /// Brings the logs to the disk, so that a power cut takes only the last records.
    fn sync_logs(&self, failures: &mut Failures) {
        for log in &self.logs {
            if let Err(error) = log.sync()
                && !std::mem::replace(&mut failures.logs, true)
            {
                let folder = self.folder.path.display();
                (self.notify)(&format!("{folder}: the log is not on the disk: {error}"));
            }
        }
    }

    /// Counts records that were to be written. Returns whether they were.
    fn count(&self, written: io::Result<u64>, records: u64, failures: &mut Failures) -> bool {
        let mut report = locked(&self.report);
        report.total_bytes = self.folder.total;
        match written {
            Ok(bytes) => {
                report.records += records;
                report.files += 1;
                report.bytes += bytes;
                true
            }
            Err(error) => {
                drop(report);
                if !std::mem::replace(&mut failures.is_failing, true) {
                    let folder = self.folder.path.display();
                    (self.notify)(&format!("{folder}: takes no records: {error}"));
                }
                failures.first.get_or_insert(error);
                false
            }
        }
    }

    fn remove_old(&mut self) {
        let mut counts = StoreReport::default();
        // Files that cannot be removed now are tried again.
        let _ = self.folder.remove_old(now(), &mut counts);
        let mut report = locked(&self.report);
        report.removed_files += counts.removed_files;
        report.total_bytes = self.folder.total;
    }

    /// Does a step of a merge. Returns how long to wait for records before the next one.
    fn work_on(&mut self, merge: &mut Option<Merge>, failures: &mut Failures) -> Duration {
        let Some(current) = merge else {
            return TICK;
        };
        let mut counts = StoreReport::default();
        // A damaged file must not end the thread, which has records to write.
        let worked = catch_unwind(AssertUnwindSafe(|| {
            current.step(&mut self.folder, now(), &mut counts)
        }));
        let step = worked.unwrap_or_else(|_| Err(io::Error::other("a file is damaged")));
        let mut report = locked(&self.report);
        report.merged_files += counts.merged_files;
        report.total_bytes = self.folder.total;
        match step {
            Ok(Step::More) => Duration::ZERO,
            Ok(Step::Held) => TICK,
            Ok(Step::Done) => {
                drop(report);
                // One that could not begin is not tried again and again.
                if counts.merged_files == 0 {
                    failures.leaves.push(current.leaf.clone());
                }
                *merge = match self.is_offline {
                    true => None,
                    false => compact::begin(&self.folder, Some(now()), &failures.leaves),
                };
                Duration::ZERO
            }
            Err(error) => {
                report.not_merged += 1;
                drop(report);
                let leaf = self.folder.path.join(current.leaf.path());
                (self.notify)(&format!("{}: not merged: {error}", leaf.display()));
                failures.leaves.push(current.leaf.clone());
                current.abandon(&mut self.folder);
                *merge = None;
                TICK
            }
        }
    }

    /// Merges the files of all hours.
    fn merge_all(&mut self, failures: &mut Failures) {
        while let Some(begun) = compact::begin(&self.folder, None, &failures.leaves) {
            let mut merge = Some(begun);
            let mut tries = TRIES;
            while merge.is_some() && tries > 0 {
                if self.work_on(&mut merge, failures) == TICK && merge.is_some() {
                    tries -= 1;
                    std::thread::sleep(PAUSE);
                }
            }
            if let Some(mut merge) = merge {
                failures.leaves.push(merge.leaf.clone());
                merge.abandon(&mut self.folder);
            }
        }
    }
}

/// Writes the records of a batch that go to a leaf, and have these numbers, to a file. If the batch has a log, the file
/// says its number. Returns the bytes of the file.
pub(super) fn write_leaf(
    folder: &mut Folder,
    (batch, number): (&Batch, Option<u64>),
    leaf: &Leaf,
    rows: &mut [u32],
    counts: &mut StoreReport,
) -> io::Result<u64> {
    let form = Form {
        lasts: rows.len() >= WHOLE,
        batch: number,
    };
    let mut encoder = Encoder::new(&batch.columns.fields, form)?;
    encoder.group(&batch.columns, rows)?;
    let bytes = encoder.finish()?;
    let name = folder.new_name(false, now());
    folder.add(leaf, &name, &bytes, counts)?;
    Ok(bytes.len() as u64)
}
