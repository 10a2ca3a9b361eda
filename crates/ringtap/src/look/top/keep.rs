//! The key `w`: packets of a host or a flow to a file, those from now on or those of the files that were read.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::taps::{Tapped, Taps};
use crate::output::{self, Access, Output};

/// A tap is open for so long at most.
const LONGEST: Duration = Duration::from_secs(86_400);
/// How often a writer without packets looks whether it is to end.
const TICK: Duration = Duration::from_millis(100);

/// Returns what names of the files begin with, in the manner of strftime(3).
pub(super) fn pattern(folder: &Path) -> PathBuf {
    folder.join("ringtap-%s.pcapng")
}

/// Writes packets to files, on request.
pub(super) struct Keeper {
    folder: PathBuf,
    access: Access,
    taps: Arc<Taps>,
    running: Option<Running>,
    notes: Vec<String>,
}

struct Running {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    packets: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<u64>>,
}

impl Keeper {
    pub(super) fn new(folder: &Path, access: Access, taps: &Arc<Taps>) -> Self {
        Self {
            folder: folder.to_owned(),
            access,
            taps: Arc::clone(taps),
            running: None,
            notes: Vec::new(),
        }
    }

    /// Begins a file, or ends the one that is being written; returns what to say.
    pub(super) fn toggle(&mut self, name: &str, expression: &str) -> String {
        if self.running.is_some() {
            return self.stop().unwrap_or_default();
        }
        match self.begin(name, expression) {
            Ok(text) => text,
            Err(error) => format!("cannot write packets: {error}"),
        }
    }

    fn begin(&mut self, name: &str, expression: &str) -> io::Result<String> {
        let tapped = self
            .taps
            .open(expression, LONGEST, None)
            .map_err(io::Error::other)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let name = name.replace(
            |character: char| !character.is_ascii_alphanumeric() && character != '.',
            "-",
        );
        let path = self.folder.join(format!("ringtap-{name}-{now}.pcapng"));
        let output = output::open(&path, self.access)?;
        let stop = Arc::new(AtomicBool::new(false));
        let packets = Arc::new(AtomicU64::new(0));
        let thread = thread::Builder::new().name("writer".to_owned());
        let (stopping, counting) = (Arc::clone(&stop), Arc::clone(&packets));
        let thread = thread.spawn(move || write(tapped, output, &stopping, &counting))?;
        let text = format!("writing packets to {}; w ends it", path.display());
        self.running = Some(Running {
            path,
            stop,
            packets,
            thread,
        });
        Ok(text)
    }

    /// Returns the file that is being written, with its packets so far.
    pub(super) fn running(&self) -> Option<(String, u64)> {
        let running = self.running.as_ref()?;
        let packets = running.packets.load(Ordering::Relaxed);
        Some((running.path.display().to_string(), packets))
    }

    /// Ends a file that no more packets come for, as those of a file that was read; returns what to say.
    pub(super) fn ended(&mut self) -> Option<String> {
        let running = self.running.as_ref()?;
        running.thread.is_finished().then(|| self.stop())?
    }

    /// Ends the file that is being written.
    fn stop(&mut self) -> Option<String> {
        let running = self.running.take()?;
        running.stop.store(true, Ordering::Relaxed);
        let packets = running.packets;
        let note = match running.thread.join() {
            Ok(Ok(lost)) => {
                let count = packets.load(Ordering::Relaxed);
                let text = crate::notice::counted(count, "packet");
                let lost = match lost {
                    0 => String::new(),
                    lost => format!(", {}", crate::notice::counted_as(lost, "packets lost")),
                };
                format!("{}: {text}{lost}", running.path.display())
            }
            Ok(Err(error)) => format!("{}: {error}", running.path.display()),
            Err(_) => format!("{}: the writer failed", running.path.display()),
        };
        self.notes.push(note.clone());
        Some(note)
    }

    /// Ends all, and returns a line for each file.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.stop();
        self.notes
    }
}

/// The life of a writer; returns the packets that were lost.
fn write(
    mut tapped: Tapped,
    output: Output,
    stop: &AtomicBool,
    count: &AtomicU64,
) -> io::Result<u64> {
    let mut file = output.emptied()?;
    let mut encoder = tapped.encoder()?;
    file.write_all(&encoder.take()?)?;
    loop {
        // In this order, so that what came before the end is written.
        let is_last = stop.load(Ordering::Relaxed);
        let mut any = false;
        while let Some(packets) = tapped.try_next() {
            any = true;
            encoder.push(&packets)?;
            count.fetch_add(packets.len() as u64, Ordering::Relaxed);
            file.write_all(&encoder.take()?)?;
        }
        if !any && tapped.is_over() || is_last {
            file.flush()?;
            return Ok(tapped.lost());
        }
        if !any {
            thread::sleep(TICK);
        }
    }
}
