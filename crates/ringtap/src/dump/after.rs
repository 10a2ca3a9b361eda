//! Opens the files of a recording, and handles each complete file: its index, then the command of `-z`.
//!
//! A separate thread makes indices one by one. It has the lowest share of the processors, so that a running
//! capture does not wait for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use ringtap_capture::index::SeekPoint;
use ringtap_record::{Host, Note};
use ringtap_sys::sched;

use super::error::DumpError;
use super::index::{Index, Version};
use crate::input::is_same_file;
use crate::notice::notice;
use crate::output::{self, Access, Output};
use crate::over_ip::Server;
use crate::rights::{self, CommandRunner};
use crate::setup::{lock, setup};

/// The lowest share of the processors (nice(2)).
const NICE: u8 = 19;

/// Opens files, and handles them when they are complete.
#[derive(Clone)]
pub(crate) struct After {
    /// The users who may read the created files.
    access: Access,
    /// The input files, none of which may be written.
    inputs: Vec<PathBuf>,
    indexer: Option<Arc<Indexer>>,
    commands: Option<Arc<CommandRunner>>,
    /// The clients that get the packets, in place of a file.
    server: Option<Arc<Server>>,
}

#[derive(Default)]
struct Indexer {
    /// The users who may read the created indices.
    access: Access,
    /// Whether files are written past the page cache: those of a live capture.
    past_cache: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The index of the only file, opened while there was the privilege for it.
    prepared: Option<Index>,
    /// The way to the thread.
    files: Option<Sender<Complete>>,
    thread: Option<JoinHandle<()>>,
    /// The first index that failed.
    failure: Option<DumpError>,
}

/// A complete file.
struct Complete {
    path: PathBuf,
    prepared: Option<Index>,
    chunks: Vec<SeekPoint>,
    version: Option<Version>,
}

impl After {
    pub(crate) fn new(
        index: bool,
        commands: Option<CommandRunner>,
        access: Access,
        inputs: Vec<PathBuf>,
    ) -> Self {
        let past_cache = inputs.is_empty();
        let indexer = || {
            Arc::new(Indexer {
                access,
                past_cache,
                ..Indexer::default()
            })
        };
        Self {
            access,
            inputs,
            indexer: index.then(indexer),
            commands: commands.map(Arc::new),
            server: None,
        }
    }

    /// Gives the packets to clients.
    pub(crate) fn serve(&mut self, server: Server) {
        self.server = Some(Arc::new(server));
    }

    /// Opens the index of the only file, while there is the privilege for it.
    ///
    /// # Errors
    /// It cannot be opened, or would overwrite another file.
    pub(crate) fn prepare(&self, path: &Path) -> Result<(), DumpError> {
        if let Some(indexer) = &self.indexer {
            lock(&indexer.state).prepared = Some(Index::prepare(path, indexer.access)?);
        }
        Ok(())
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// An index (the first that failed) or a command failed. The files themselves are complete.
    pub(crate) fn wait(&self) -> Result<(), DumpError> {
        if let Some(server) = &self.server {
            server.finish();
        }
        let done = self.indexer.as_ref().map_or(Ok(()), |it| it.finish());
        if let Some(commands) = &self.commands {
            let ended = commands.wait().map_err(DumpError::Command);
            return match (done, ended) {
                (Err(failure), Err(second)) => {
                    notice(&second);
                    Err(failure)
                }
                (done, ended) => done.and(ended),
            };
        }
        done
    }
}

impl Host for After {
    fn open(&self, path: &Path) -> io::Result<Output> {
        match &self.server {
            Some(server) => Ok(Output::new(server.output()?, None)),
            None => output::open(path, self.access),
        }
    }

    fn reads(&self, path: &Path) -> bool {
        self.inputs.iter().any(|input| is_same_file(input, path))
    }

    fn wants_seek_points(&self) -> bool {
        self.indexer.is_some()
    }

    /// Returns without waiting. Threads start here and not earlier, so that they have the caller's present
    /// privileges.
    fn complete(&self, path: PathBuf, chunks: Vec<SeekPoint>) {
        let Some(indexer) = &self.indexer else {
            if let Some(commands) = &self.commands {
                run(commands, &path);
            }
            return;
        };
        let metadata = rights::read(&path).and_then(|file| file.metadata()).ok();
        let mut state = lock(&indexer.state);
        let file = Complete {
            version: metadata.as_ref().map(Version::of),
            path,
            prepared: state.prepared.take(),
            chunks,
        };
        if state.thread.is_none() {
            let (shared, commands) = (Arc::clone(indexer), self.commands.clone());
            let (sender, files) = channel();
            let thread = thread::Builder::new().name("index".into());
            match thread.spawn(move || shared.work(files, commands.as_deref())) {
                Ok(thread) => (state.files, state.thread) = (Some(sender), Some(thread)),
                Err(source) => {
                    let failure = setup("start a thread for the index", source).into();
                    state.failure.get_or_insert(failure);
                }
            }
        }
        if let Some(files) = &state.files {
            // A thread that has panicked is reported at the end.
            let _ = files.send(file);
        } else if let Some(commands) = &self.commands {
            // A file without an index still gets its command.
            run(commands, &file.path);
        }
    }

    fn note(&self, note: &Note) {
        notice(note);
    }
}

impl Indexer {
    fn work(&self, files: Receiver<Complete>, commands: Option<&CommandRunner>) {
        // With its ordinary share it works too.
        let _ = sched::set_nice(NICE);
        for mut file in files {
            if let Err(failure) = make(&mut file, (self.access, self.past_cache)) {
                let mut state = lock(&self.state);
                match state.failure {
                    None => state.failure = Some(failure),
                    Some(_) => notice(&failure),
                }
            }
            if let Some(commands) = commands {
                run(commands, &file.path);
            }
        }
    }

    fn finish(&self) -> Result<(), DumpError> {
        let thread = {
            let mut state = lock(&self.state);
            state.files = None;
            state.thread.take()
        };
        let whole = thread.is_none_or(|thread| thread.join().is_ok());
        let mut state = lock(&self.state);
        // The prepared index of a failed file is removed.
        state.prepared = None;
        match state.failure.take() {
            Some(failure) => Err(failure),
            None if whole => Ok(()),
            None => {
                let source = io::Error::other("its thread has panicked");
                Err(setup("make the index", source).into())
            }
        }
    }
}

/// Runs the command with a file. The capture continues if the helper process fails.
fn run(commands: &CommandRunner, path: &Path) {
    if let Err(error) = commands.run(path) {
        notice(format_args!("-z: {}: {error}", path.display()));
    }
}

/// Makes the index of a file, unless the file is being overwritten: in a ring of files, only files that exist
/// long enough get one.
fn make(file: &mut Complete, (access, past_cache): (Access, bool)) -> Result<(), DumpError> {
    let mut index = match file.prepared.take() {
        Some(index) => index,
        None => Index::prepare(&file.path, access)?,
    };
    let is_same = |index: &Index| file.version.is_none() || index.version() == file.version;
    if !is_same(&index) {
        return Ok(());
    }
    match index.make(file.chunks.clone(), past_cache) {
        Err(_) if !is_same(&index) => Ok(()),
        made => made.map(drop),
    }
}
