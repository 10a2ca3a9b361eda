//! `-z COMMAND`: runs it with each complete file, during the capture.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use ringtap_sys::sched;

use crate::notice::{counted, notice};

/// The maximum number of commands that run at once. Further files wait.
const AT_ONCE: usize = 8;

/// Runs the command with files.
#[derive(Clone)]
pub(crate) struct Commands(Arc<Shared>);

struct Shared {
    command: OsString,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    files: VecDeque<PathBuf>,
    /// The number of threads that wait for a file.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
    /// The number of files, and of those for which the command failed.
    begun: u64,
    failed: u64,
}

impl Commands {
    pub(crate) fn new(command: OsString) -> Self {
        Self(Arc::new(Shared {
            command,
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Runs the command with a file, without waiting. Its threads start here and not earlier, so that they
    /// have the caller's present privileges.
    pub(crate) fn run(&self, file: PathBuf) {
        let mut state = self.0.state();
        state.files.push_back(file);
        state.begun += 1;
        if state.idle < state.files.len() && state.threads.len() < AT_ONCE {
            let shared = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("command".into());
            match thread.spawn(move || shared.run_all()) {
                Ok(thread) => state.threads.push(thread),
                Err(error) => notice(format_args!("-z: cannot start a thread: {error}")),
            }
        }
        drop(state);
        self.0.changed.notify_one();
    }

    /// Waits until every command has ended.
    ///
    /// # Errors
    /// The number of commands that failed, each of which was reported.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let threads = {
            let mut state = self.0.state();
            state.closed = true;
            std::mem::take(&mut state.threads)
        };
        self.0.changed.notify_all();
        for thread in threads {
            // A panicked thread has already reported it.
            let _ = thread.join();
        }
        let State { begun, failed, .. } = *self.0.state();
        if failed == 0 {
            return Ok(());
        }
        let failed = format!(
            "the command has failed for {failed} of {}",
            counted(begun, "file")
        );
        Err(io::Error::other(failed))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_all(&self) {
        while let Some(file) = self.next() {
            if let Err(reason) = run(&self.command, &file) {
                let command = self.command.to_string_lossy();
                notice(format_args!("-z {command} {}: {reason}", file.display()));
                self.state().failed += 1;
            }
        }
    }

    fn next(&self) -> Option<PathBuf> {
        let mut state = self.state();
        loop {
            if let Some(file) = state.files.pop_front() {
                return Some(file);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

fn run(command: &OsString, file: &Path) -> Result<(), String> {
    // A name that begins with a hyphen is not an option.
    let file = match file.as_os_str().as_encoded_bytes() {
        [b'-', ..] => Path::new(".").join(file),
        _ => file.to_owned(),
    };
    let mut child = Command::new(command)
        .arg(file)
        .stdin(Stdio::null())
        // Ctrl-C is for the capture; the command should finish its file.
        .process_group(0)
        .spawn()
        .map_err(|error| error.to_string())?;
    // It may have ended already.
    let _ = sched::least_share(child.id());
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
