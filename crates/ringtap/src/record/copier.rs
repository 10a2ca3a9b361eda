//! Copies windows of time to the folder of incidents, on a thread of its own, one by one.
//!
//! A copy may take minutes. Meanwhile the recorder takes requests, writes its status, and reports to the service
//! manager.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use ringtap_capture::Filter;
use ringtap_record::archive::{Archive, Copied, INCIDENTS, Window, nanos, stamp, taken};
use ringtap_savefile::Codec;
use ringtap_sys::output::Access;
use ringtap_sys::sched;

use super::error::RecorderError;
use super::filtered;
use super::folder::Incidental;
use super::status::seconds;
use super::trigger::Fired;
use crate::extract::ExtractError;
use crate::notice::{Fields, counted, notice, warning};
use crate::object::object;
use crate::rights;
use crate::setup::{SetupError, setup};

/// The lowest share of the processors (nice(2)).
const NICE: u8 = 19;
/// How often the thread looks for copies that somebody has removed.
const RECOUNT: Duration = Duration::from_secs(5);
/// How often the end of the thread is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The bytes that a file counts beyond its content.
const EACH: u64 = 4096;

/// The packets that are copied, and the form of their files.
pub(super) struct CopyPlan {
    /// The packets that are copied. `None` for all, as they are in the files.
    pub(super) filter: Option<Filter>,
    /// The compression of a copy with a filter.
    pub(super) codec: Option<Codec>,
    pub(super) access: Access,
}

/// The numbers of the copies since the start.
#[derive(Debug, Default)]
pub(super) struct CopyCounts {
    pub(super) made: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Triggers that were not obeyed, since too many copies waited.
    pub(super) ignored: AtomicU64,
}

/// The thread that copies.
pub(super) struct Copier {
    thread: JoinHandle<()>,
    windows: Sender<(Fired, Window)>,
    done: Receiver<()>,
    counts: Arc<CopyCounts>,
}

impl Copier {
    /// Starts the thread. Call it after privileges were given up.
    pub(super) fn start(
        archive: &Arc<Archive>,
        plan: CopyPlan,
        incidental: Incidental,
    ) -> Result<Self, SetupError> {
        let (windows, queue) = channel();
        let (finished, done) = channel();
        let counts = Arc::new(CopyCounts::default());
        let mut work = Work {
            archive: Arc::clone(archive),
            plan,
            kept: Kept::new(incidental),
            counts: Arc::clone(&counts),
        };
        let thread = thread::Builder::new().name("copy".into());
        let thread = thread.spawn(move || {
            // With its ordinary share it works too.
            let _ = sched::set_nice(NICE);
            work.run(&queue, &finished);
        });
        Ok(Self {
            thread: thread.map_err(|source| setup("start the thread for copies", source))?,
            windows,
            done,
            counts,
        })
    }

    /// Returns the numbers of its copies.
    pub(super) fn counts(&self) -> Arc<CopyCounts> {
        Arc::clone(&self.counts)
    }

    /// Counts a trigger that is not obeyed.
    pub(super) fn ignore(&self) {
        self.counts.ignored.fetch_add(1, Ordering::Relaxed);
    }

    /// Has a window copied after those before it.
    pub(super) fn copy(&self, fired: Fired, window: Window) {
        // Without a receiver the thread has panicked, which was reported.
        let _ = self.windows.send((fired, window));
    }

    /// Returns how many windows were copied since the last call.
    pub(super) fn take_done(&self) -> usize {
        self.done.try_iter().count()
    }

    /// Waits until all windows are copied. `meanwhile` is called often.
    pub(super) fn end(self, mut meanwhile: impl FnMut()) {
        drop(self.windows);
        while !self.thread.is_finished() {
            meanwhile();
            thread::sleep(LOOK);
        }
        // A panic was reported when it happened.
        let _ = self.thread.join();
    }
}

/// The work of the thread.
struct Work {
    archive: Arc<Archive>,
    plan: CopyPlan,
    kept: Kept,
    counts: Arc<CopyCounts>,
}

object! {
    /// The reason of a copy, beside it. Times are seconds since the epoch.
    struct Reason(fired: &Fired, window: Window, copied: &Copied) {
        trigger: String = fired.name.clone(),
        reason: String = fired.reason.clone(),
        at: f64 = seconds(nanos(fired.at)),
        from: f64 = seconds(window.from.unwrap_or(0)),
        to: f64 = seconds(window.to.unwrap_or(0)),
        files: Vec<String> = names(&copied.files),
        packets: u64 = copied.packets,
        cut_packets: u64 = copied.cut.packets,
        cut_bytes: u64 = copied.cut.bytes,
        missing_chunks: u64 = copied.missing,
    }
}

/// Returns the names of files.
fn names(files: &[PathBuf]) -> Vec<String> {
    let names = files.iter().filter_map(|path| path.file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

impl Work {
    fn run(&mut self, queue: &Receiver<(Fired, Window)>, finished: &Sender<()>) {
        loop {
            match queue.recv_timeout(RECOUNT) {
                Ok((fired, window)) => {
                    let result = self.copy(&fired, window);
                    let count = match &result {
                        Ok(()) => &self.counts.made,
                        Err(_) => &self.counts.failed,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = result {
                        warning(
                            &Fields::default().with("trigger", &fired.name),
                            format_args!("trigger {}: not copied: {error}", fired.name),
                        );
                    }
                    self.kept.count(&self.archive);
                    // Without a receiver the run is over.
                    let _ = finished.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.kept.look(&self.archive),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn copy(&mut self, fired: &Fired, window: Window) -> Result<(), ExtractError> {
        let prefix = format!("{}-{}", stamp(nanos(fired.at)), fired.name);
        let copied = self.copy_packets(window, &prefix)?;
        let reason = Reason::new(fired, window, &copied);
        let folder = self.archive.folder().join(INCIDENTS);
        let path = folder.join(format!("{prefix}.json"));
        let text = serde_json::to_string(&reason).unwrap_or_default();
        let written = rights::write(&path, self.plan.access, true)
            .and_then(ringtap_sys::output::Output::emptied)
            .and_then(|mut file| writeln!(file, "{text}"));
        self.kept.add(copied.files);
        self.kept.add([path.clone()]);
        written.map_err(|error| ExtractError::from(RecorderError::folder(&path)(error)))?;
        notice(format_args!(
            "trigger {}: {} copied to {}",
            fired.name,
            counted(copied.packets, "packet"),
            path.with_extension("").display()
        ));
        Ok(())
    }

    fn copy_packets(&self, window: Window, prefix: &str) -> Result<Copied, ExtractError> {
        let archive = &*self.archive;
        match &self.plan.filter {
            None => {
                let copied = archive.copy(window, prefix);
                copied.map_err(|error| RecorderError::folder(archive.folder())(error).into())
            }
            Some(filter) => {
                let how = (filter, self.plan.codec, self.plan.access);
                filtered::copy(archive, window, prefix, how)
            }
        }
    }
}

/// The files of the copies, and the bytes that they count to the budget.
struct Kept {
    folder: File,
    /// When a name was last added to the folder or removed from it.
    changed: Option<SystemTime>,
    files: BTreeMap<PathBuf, u64>,
    /// The bytes of what is not the recorder's.
    others: u64,
}

impl Kept {
    fn new(incidental: Incidental) -> Self {
        Self {
            folder: incidental.folder,
            changed: None,
            files: incidental.files,
            others: incidental.others,
        }
    }

    fn add(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        self.files.extend(files.into_iter().map(|path| (path, 0)));
    }

    /// Counts anew, if somebody has removed a copy.
    fn look(&mut self, archive: &Archive) {
        let changed = self.folder.metadata().and_then(|folder| folder.modified());
        if changed.ok() != self.changed {
            self.count(archive);
        }
    }

    /// Measures the files, and forgets those that were removed.
    fn count(&mut self, archive: &Archive) {
        let changed = self.folder.metadata().and_then(|folder| folder.modified());
        self.changed = changed.ok();
        self.files.retain(|path, bytes| {
            match rights::read(path).and_then(|file| file.metadata()) {
                Ok(metadata) => *bytes = taken(&metadata),
                Err(error) => return error.kind() != io::ErrorKind::NotFound,
            }
            true
        });
        let each = self.files.len() as u64 * EACH;
        let bytes = self.others + each + self.files.values().sum::<u64>();
        // If nothing can be removed for them, they count nonetheless the next time.
        let _ = archive.set_incidents(bytes);
    }
}
