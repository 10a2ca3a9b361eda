//! The helper processes: their work, and the program's requests.
//!
//! One opens files with the privileges of the user who started the program, another runs the commands of
//! `-z`. They see no packet: the helper opens a file, and the program reads and writes it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use ringtap_capture::index::path_for;
use ringtap_sys::helper::{Channel, Helper};
use ringtap_sys::map;
use ringtap_sys::output::{self, Access, Entry, Group};
use ringtap_sys::privileges::{self, Capability, User};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::allowed::NamedFiles;
use super::commands::Commands;
use super::message::{Answer, BY_UMASK, Kind, LONGEST, OF_GROUP, Operation, READABLE, Request};
use crate::notice::notice;

/// The capabilities that let root read and write all files, and no others.
const ALL_FILES: [Capability; 5] = [
    Capability::CHOWN,
    Capability::DAC_OVERRIDE,
    Capability::DAC_READ_SEARCH,
    Capability::FOWNER,
    Capability::LEASE,
];

/// The channel to a helper process.
#[derive(Debug)]
pub(crate) struct Client {
    // One request at a time. `None` after the end.
    helper: Mutex<Option<Helper>>,
    process: u32,
    pub(super) files: NamedFiles,
}

impl Client {
    /// Starts the process that opens files. It must not hold the channel of an `earlier` one, which would
    /// then not notice the program's end.
    pub(super) fn of_files(files: NamedFiles, earlier: Option<&Self>) -> ringtap_sys::Result<Self> {
        let mut served = Served {
            inputs: files.inputs.iter().map(|path| identity(path)).collect(),
            files: files.clone(),
            opened: VecDeque::new(),
        };
        let helper = Helper::start("ringtap-files", |channel| {
            // There is nothing to wait for: the other process is not a child of this one.
            earlier.into_iter().for_each(Self::end);
            if give_up(None, &ALL_FILES) {
                serve(channel, &mut |request, file| {
                    served.answer(request, file.as_ref())
                });
            }
        })?;
        Ok(Self::new(helper, files))
    }

    /// Starts the process that runs commands, as `user` if one is given.
    pub(super) fn of_commands(
        command: OsString,
        files: NamedFiles,
        user: Option<&User>,
    ) -> ringtap_sys::Result<Self> {
        let served = files.clone();
        let helper = Helper::start("ringtap-z", |channel| {
            let keep: &[_] = if user.is_some() { &[] } else { &ALL_FILES };
            if give_up(user, keep) {
                let commands = Commands::new(command);
                serve(channel, &mut |request, _| run(&served, &commands, request));
            }
        })?;
        Ok(Self::new(helper, files))
    }

    fn new(helper: Helper, files: NamedFiles) -> Self {
        Self {
            process: helper.id(),
            helper: Mutex::new(Some(helper)),
            files,
        }
    }

    /// Returns the process id.
    pub(super) fn id(&self) -> u32 {
        self.process
    }

    /// Ends the process, and waits for it.
    pub(super) fn end(&self) {
        *self.locked() = None;
    }

    /// Opens a file for reading.
    pub(super) fn read(&self, path: &Path) -> io::Result<File> {
        self.ask(Operation::Read, path)?.file.ok_or_else(broken)
    }

    /// Returns the kind of file at a path.
    pub(super) fn look(&self, path: &Path) -> io::Result<Kind> {
        Ok(self.ask(Operation::Look, path)?.kind)
    }

    /// Opens a file for writing, or creates it.
    pub(super) fn write(
        &self,
        path: &Path,
        access: Access,
        readable: bool,
    ) -> io::Result<(File, bool)> {
        let (of_access, group) = coded(access);
        let request = Request {
            operation: Operation::Write,
            flags: of_access | if readable { READABLE } else { 0 },
            group,
            path,
        };
        let reply = self.request(request, None)?;
        Ok((reply.file.ok_or_else(broken)?, reply.made))
    }

    /// Does something with a file that has no other result.
    pub(super) fn order(&self, operation: Operation, path: &Path) -> io::Result<()> {
        self.ask(operation, path).map(drop)
    }

    /// Runs the command with a file, without waiting.
    pub(crate) fn run(&self, path: &Path) -> io::Result<()> {
        self.order(Operation::Run, path)
    }

    /// Waits until all commands have ended.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.order(Operation::Wait, Path::new(""))
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Helper>> {
        self.helper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, operation: Operation, path: &Path) -> io::Result<Reply> {
        self.request(Request::plain(operation, path), None)
    }

    /// Takes a lease on a file, or returns it.
    pub(super) fn lease(&self, file: &File, taken: bool) -> io::Result<()> {
        let operation = match taken {
            true => Operation::Lease,
            false => Operation::GiveBack,
        };
        let request = Request::plain(operation, Path::new(""));
        self.request(request, Some(file)).map(drop)
    }

    fn request(&self, request: Request<'_>, file: Option<&File>) -> io::Result<Reply> {
        let helper = self.locked();
        let ended = || io::Error::other("the helper process has ended");
        let channel = helper.as_ref().ok_or_else(ended)?.channel();
        let sent = channel.send(&request.to_bytes(), file.map(|file| file.as_fd()));
        sent.map_err(|error| error.source)?;
        let mut buffer = [0; LONGEST];
        let received = channel.receive(&mut buffer).map_err(|error| error.source)?;
        let Some((length, file)) = received else {
            return Err(ended());
        };
        match Answer::parse(&buffer[..length]).ok_or_else(broken)? {
            Answer::Done { kind, made } => Ok(Reply {
                kind,
                made,
                file: file.map(File::from),
            }),
            Answer::Failed(error) => Err(error),
        }
    }
}

/// Returns the flags for permissions, and the number of the group.
fn coded(access: Access) -> (u8, u32) {
    match access {
        Access::Owner => (0, 0),
        Access::Umask => (BY_UMASK, 0),
        Access::Group(group) => (OF_GROUP, group.gid()),
    }
}

fn broken() -> io::Error {
    io::Error::other("the helper process sent an invalid answer")
}

/// Gives up all privileges of a helper except `keep`. If that fails, the process ends.
pub(super) fn give_up(user: Option<&User>, keep: &[Capability]) -> bool {
    // Ctrl-C is for the program, which stops the helper when it no longer needs it. Handlers, unlike ignored
    // signals, are not inherited by started programs.
    let nothing = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Without it the helper may end too early, which its next user reports.
        let _ = signal_hook::flag::register(signal, Arc::clone(&nothing));
    }
    match privileges::relinquish(user, keep) {
        Ok(()) => true,
        Err(error) => {
            notice(format_args!(
                "the helper process cannot give up privileges: {error}"
            ));
            false
        }
    }
}

/// An answer, with its descriptor.
#[derive(Debug, Default)]
pub(super) struct Reply {
    kind: Kind,
    made: bool,
    pub(super) file: Option<File>,
}

type Done = io::Result<Reply>;

/// Answers requests until the program has ended.
fn serve(channel: &Channel, answer: &mut dyn FnMut(Request<'_>, Option<File>) -> Done) {
    let mut buffer = [0; LONGEST];
    while let Ok(Some((length, file))) = channel.receive(&mut buffer) {
        let done = match Request::parse(&buffer[..length]) {
            Some(request) => answer(request, file.map(File::from)),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        let (answer, file) = match done {
            Ok(Reply { kind, made, file }) => (Answer::Done { kind, made }, file),
            Err(error) => (Answer::Failed(error), None),
        };
        let file = file.as_ref().map(|file| file.as_fd());
        if channel.send(&answer.to_bytes(), file).is_err() {
            return;
        }
    }
}

/// The identity of a file: its device and inode number.
type Identity = (u64, u64);

/// Returns the identity of the file at a path. `None` if there is none.
fn identity(path: &Path) -> Option<Identity> {
    path.metadata().ok().as_ref().map(identity_of)
}

fn identity_of(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// The state of the process that opens files.
struct Served {
    files: NamedFiles,
    /// The inputs' identities when the program started. A path that now leads to another file is rejected.
    inputs: Vec<Option<Identity>>,
    /// The files that were last opened for writing, with the way to undo their creation: they are removed if
    /// nothing is written.
    opened: VecDeque<(PathBuf, Option<Entry>)>,
}

/// The number of files that can be removed.
const OPENED: usize = 64;

impl Served {
    fn answer(&mut self, request: Request<'_>, file: Option<&File>) -> Done {
        let path = request.path;
        let may = match request.operation {
            Operation::Read | Operation::Look => self.files.may_read(path),
            Operation::Write | Operation::Remove => self.files.may_write(path),
            // An open file for reading can keep others from changing it, as its owner may.
            Operation::Lease | Operation::GiveBack => file.is_some_and(|file| self.is_input(file)),
            Operation::Publish | Operation::Exchange => self.files.is_stored(path),
            Operation::Ask => path
                .parent()
                .is_some_and(|socket| self.files.is_asked(socket)),
            Operation::Run | Operation::Wait => false,
        };
        if !may {
            return Err(refused());
        }
        #[cfg(feature = "parquet")]
        if self.files.is_stored(path) {
            return super::store::answer(request, access(request)?);
        }
        let mut reply = Reply::default();
        match request.operation {
            Operation::Read => reply.file = Some(self.read(path)?),
            Operation::Look => reply.kind = Kind::of(&path.metadata()?),
            Operation::Write => {
                let opened = output::open(path, access(request)?, request.flags & READABLE != 0)?;
                reply.file = Some(opened.file);
                reply.made = opened.made.is_some();
                self.opened.push_back((path.to_owned(), opened.made));
                if self.opened.len() > OPENED {
                    self.opened.pop_front();
                }
            }
            Operation::Lease => {
                if let Some(file) = file {
                    map::take_lease(file).map_err(|error| error.source)?;
                }
            }
            Operation::GiveBack => file.into_iter().for_each(map::give_back),
            Operation::Ask => ask(path)?,
            _ => self.remove(path)?,
        }
        Ok(reply)
    }

    fn is_input(&self, file: &File) -> bool {
        let identity = file.metadata().ok().as_ref().map(identity_of);
        identity.is_some() && self.inputs.contains(&identity)
    }

    /// Opens a file of the command line for reading: an input as it was when the program started, an input's
    /// index, or an output.
    fn read(&self, path: &Path) -> io::Result<File> {
        let inputs = &self.files.inputs;
        if let Some(place) = inputs.iter().position(|input| input == path) {
            let file = open_for_reading(path)?;
            let is_same = self.inputs[place] == Some(identity_of(&file.metadata()?));
            return is_same.then_some(file).ok_or_else(replaced);
        }
        if self.files.is_of_archive(path) {
            return open_with(path, output::NO_FOLLOW);
        }
        let Some(input) = inputs.iter().find(|input| path_for(input) == path) else {
            return open_for_reading(path);
        };
        // A user who can put a link beside the capture must not choose a file that is read with our
        // privileges.
        let file = open_with(path, output::NO_FOLLOW)?;
        let (index, input) = (file.metadata()?, input.metadata()?);
        let is_trusted = index.uid() == input.uid() || index.uid() == 0;
        if index.is_file() && is_trusted {
            Ok(file)
        } else {
            Err(replaced())
        }
    }

    /// Removes a file that was opened for writing here, or is in the folder of the recorder.
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        if self.files.is_recorded(path) {
            self.opened.retain(|(opened, _)| opened != path);
            return std::fs::remove_file(path);
        }
        let place = self.opened.iter().rposition(|(opened, _)| opened == path);
        match place.and_then(|place| self.opened.remove(place)) {
            Some((_, Some(entry))) => entry.remove(),
            Some((path, None)) => std::fs::remove_file(path),
            None => Err(refused()),
        }
    }
}

/// Sends a request to a recorder.
fn ask(path: &Path) -> io::Result<()> {
    let parts = path.file_name().and_then(OsStr::to_str);
    let parts = parts.zip(path.parent().and_then(Path::parent));
    let (name, folder) = parts.ok_or(io::ErrorKind::InvalidInput)?;
    let socket = crate::record::request_socket()?;
    crate::record::send_request(&socket, folder, name)
}

fn replaced() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "it is not the file that was there when ringtap started",
    )
}

fn access(request: Request<'_>) -> io::Result<Access> {
    if request.flags & OF_GROUP != 0 {
        let group = Group::by_name(&request.group.to_string());
        return group.map(Access::Group).map_err(io::Error::other);
    }
    Ok(if request.flags & BY_UMASK != 0 {
        Access::Umask
    } else {
        Access::Owner
    })
}

/// Opens a file. For a FIFO it does not wait for the writer.
pub(super) fn open_for_reading(path: &Path) -> io::Result<File> {
    open_with(path, 0)
}

fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    options
        .custom_flags(flags | ringtap_sys::poll::NON_BLOCKING)
        .open(path)
}

fn run(files: &NamedFiles, commands: &Commands, request: Request<'_>) -> Done {
    match request.operation {
        Operation::Run if files.may_write(request.path) => {
            commands.run(PathBuf::from(request.path));
        }
        Operation::Wait => commands.wait()?,
        _ => return Err(refused()),
    }
    Ok(Reply::default())
}

fn refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the command line does not name this file",
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn served(inputs: &[&Path], series: Option<&Path>) -> Served {
        let inputs: Vec<PathBuf> = inputs.iter().map(|path| path.to_path_buf()).collect();
        Served {
            inputs: inputs.iter().map(|path| identity(path)).collect(),
            files: NamedFiles {
                inputs,
                series: series.map(|name| super::super::Series::of(name, false)),
                ..NamedFiles::default()
            },
            opened: VecDeque::new(),
        }
    }

    fn ask(served: &mut Served, operation: Operation, path: &Path) -> io::Result<()> {
        let request = Request {
            operation,
            flags: 0,
            group: 0,
            path,
        };
        served.answer(request, None).map(drop)
    }

    /// A compromised program cannot make the helper open another file, neither in an input's place nor by a
    /// link in the place of its index.
    #[test]
    fn inputs_are_what_they_were_at_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (input, secret) = (path("in.pcap"), path("secret"));
        fs::write(&input, "in").expect("a file");
        fs::write(&secret, "secret").expect("a file");
        let mut served = served(&[&input], None);
        ask(&mut served, Operation::Read, &input).expect("it is as it was");
        symlink(&secret, path_for(&input)).expect("a link");
        assert!(ask(&mut served, Operation::Read, &path_for(&input)).is_err());
        fs::remove_file(path_for(&input)).expect("removed");
        fs::write(path_for(&input), "index").expect("a file");
        ask(&mut served, Operation::Read, &path_for(&input)).expect("a file of the same owner");
        fs::remove_file(&input).expect("removed");
        symlink(&secret, &input).expect("a link");
        assert!(ask(&mut served, Operation::Read, &input).is_err());
        assert!(ask(&mut served, Operation::Read, &secret).is_err());
        let leased = File::open(&secret).expect("open");
        assert!(!served.is_input(&leased));
    }

    /// It also cannot remove files that are not of this run.
    #[test]
    fn only_files_of_the_run_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("x");
        let earlier = folder.path().join("x3");
        fs::write(&earlier, "of an earlier run").expect("a file");
        let mut served = served(&[], Some(&name));
        assert!(ask(&mut served, Operation::Remove, &earlier).is_err());
        assert!(ask(&mut served, Operation::Write, &folder.path().join("x.key")).is_err());
        let made = folder.path().join("x4");
        ask(&mut served, Operation::Write, &made).expect("it is of the series");
        ask(&mut served, Operation::Remove, &made).expect("it was made here");
        assert!(earlier.exists() && !made.exists());
    }
}
