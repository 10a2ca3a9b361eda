//! The program's privileges, and which of them it gives up before it reads a packet.
//!
//! This module chooses the user that a root process becomes, decides when, and opens files that only the
//! starting user may open: a helper process opens those of the command line ([`helper`]).
//! [`ringtap_sys::privileges`] makes the system calls.
//!
//! A command does this in order. It calls [`Rights::begin`] first, with all files of the command line. It
//! opens everything that needs privileges: sockets, rings, programs. It calls [`Rights::entrust`] if something
//! needs privileges until the end. It calls [`Rights::relinquish`]. Then it opens files with [`read`] and
//! starts threads. No packet is read before.
//!
//! Privileges belong to the whole process, and so does the channel to its files.

mod allowed;
mod commands;
mod helper;
mod keeper;
mod lease;
mod message;
#[cfg(feature = "parquet")]
mod store;

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use ringtap_capture::index::path_for;
use ringtap_capture::{CaptureOptions, ContainerNamer};
pub(crate) use ringtap_sandbox::Needs;
use ringtap_sandbox::Report;
use ringtap_sys::output::{self, Access, Output, Undo};
use ringtap_sys::poll::{self, Interest};
use ringtap_sys::privileges::{self, Capability, Held, PrivilegeError, User, is_elevated, is_root};

pub(crate) use allowed::{ArchiveFolder, NamedFiles, Series};
use helper::Client;
pub(crate) use helper::Client as CommandRunner;
pub(crate) use keeper::Entrusted;
use keeper::Keeper;
pub(crate) use lease::MAP_WITH_LEASE;
pub(crate) use message::Kind;
use message::Operation;
#[cfg(feature = "parquet")]
pub(crate) use store::Opener as StoreOpener;

use crate::cli::RightsArgs;
use crate::containers::Asked;
use crate::notice::notice;
use crate::over_ip;

/// The helper that opens files, if there is one.
static FILES: OnceLock<Client> = OnceLock::new();

/// The process that knows the names of containers, if there is one.
static CONTAINERS: OnceLock<Asked> = OnceLock::new();

/// The reason why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RightsError {
    /// The user of `-Z` is unknown.
    #[error("-Z: {0}")]
    User(PrivilegeError),
    /// The system call failed.
    #[error("cannot give up privileges: {0}")]
    Relinquish(PrivilegeError),
    /// No process could be started to open files or run commands.
    #[error("cannot start a helper process: {0}")]
    Helper(ringtap_sys::Error),
}

impl RightsError {
    /// Returns the exit status: an unknown user is wrong usage.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::User(PrivilegeError::NoSuchUser { .. }) => crate::exit::USAGE,
            _ => 1,
        }
    }
}

/// The user that the process becomes.
#[derive(Debug)]
enum Whom {
    /// No other user: the process is not root's.
    Same,
    /// No other user although the process is root's, for this reason.
    Root(String),
    /// The user of `-Z`.
    Chosen(User),
    /// The default user.
    Unprivileged(User),
}

/// The privileges of a run.
#[derive(Debug)]
pub(crate) struct Rights {
    whom: Whom,
    /// Whether the run only reads files, so that a foreign thread does no harm.
    reads_only: bool,
    commands: Option<Client>,
    /// The files of the command line.
    files: NamedFiles,
    without_sandbox: bool,
    /// The result of the sandbox.
    report: OnceCell<Report>,
    /// The process that reverts changes at the end, if there are any.
    keeper: OnceCell<Keeper>,
}

/// Other files that a run reads: configuration, time zones, its own state, processors.
const SYSTEM: [&str; 7] = [
    "/etc",
    "/usr/share/zoneinfo",
    "/proc/self",
    "/proc/meminfo",
    "/proc/sys",
    "/sys/devices",
    "/sys/fs/cgroup",
];
/// The files for name resolution.
const NAMES: [&str; 5] = ["/usr/lib", "/lib", "/lib64", "/run/systemd", "/run/nscd"];

impl Rights {
    /// Chooses the user, and starts the processes that keep privileges for the files and the command of `-z`.
    ///
    /// # Errors
    /// There is no such user, or no process can be started.
    pub(crate) fn begin(
        args: &RightsArgs,
        files: NamedFiles,
        command: Option<OsString>,
    ) -> Result<Self, RightsError> {
        let whom = whom(args)?;
        let is_read = files.archives.iter().any(|archive| !archive.is_written);
        let reads_only = !files.inputs.is_empty() || is_read;
        let mut kept = files.clone();
        if let Whom::Chosen(user) = &whom {
            // A process has one run.
            let _ = OPENS_AS.set(user.name.clone());
            // As in tcpdump: with a user name, that user creates the files.
            kept.outputs.clear();
            kept.series = None;
            kept.store = None;
            kept.archives.retain(|archive| !archive.is_written);
        }
        let user = match &whom {
            Whom::Chosen(user) => Some(user),
            _ => None,
        };
        let start = |command| Client::of_commands(command, files.clone(), user);
        let commands = command.map(start).transpose();
        let commands = commands.map_err(RightsError::Helper)?;
        if !kept.is_empty() && has_all_files() {
            match Client::of_files(kept, commands.as_ref()) {
                Ok(client) => drop(FILES.set(client)),
                // An emulator's thread, for example: the process's new user opens files.
                Err(error) if reads_only => notice(format_args!("no helper process: {error}")),
                Err(error) => return Err(RightsError::Helper(error)),
            }
        }
        Ok(Self {
            whom,
            reads_only,
            commands,
            files,
            without_sandbox: args.no_sandbox,
            report: OnceCell::new(),
            keeper: OnceCell::new(),
        })
    }

    /// Starts a helper process for the parts of a run that need privileges until its end, if there are any.
    /// Call it before [`Rights::relinquish`].
    ///
    /// # Errors
    /// The helper process cannot be started.
    pub(crate) fn entrust(&self, entrusted: &mut dyn Entrusted) -> Result<(), RightsError> {
        let keep = entrusted.capabilities();
        if keep.is_empty() {
            return Ok(());
        }
        let end_others = || self.end_helpers();
        let keeper = Keeper::start(&keep, entrusted, end_others).map_err(RightsError::Helper)?;
        entrusted.entrusted();
        // It is called once.
        let _ = self.keeper.set(keeper);
        Ok(())
    }

    /// Closes a copy's channels to the helper processes, which would otherwise not notice the program's end.
    fn end_helpers(&self) {
        // There is nothing to wait for: they are not children of the copy.
        let clients = FILES.get().into_iter().chain(&self.commands);
        clients.for_each(Client::end);
        if let Some(containers) = CONTAINERS.get() {
            containers.end();
        }
    }

    /// Returns the options of a capture with the names of containers, if these are to be recorded: starts the process
    /// that knows them. Call it before anything starts a thread. Without the process, containers have their ids only.
    pub(crate) fn name_containers(&self, options: CaptureOptions) -> CaptureOptions {
        if !options.who.is_some_and(|who| who.cgroup) {
            return options;
        }
        let started = Asked::start(|| {
            self.end_helpers();
            let reads_all: &[_] = match has_all_files() {
                true => &[Capability::DAC_READ_SEARCH],
                false => &[],
            };
            helper::give_up(None, reads_all)
        });
        match started {
            Ok(asked) => drop(CONTAINERS.set(asked)),
            Err(error) => notice(format_args!("containers have no names: {error}")),
        }
        let containers = CONTAINERS.get();
        options.container_names(
            containers.map(|containers| ContainerNamer::new(|group| containers.names(group))),
        )
    }

    /// Gives up all privileges except the capabilities to keep, permanently, and then all files and system
    /// calls that the rest of the run does not need. There must be no threads yet.
    ///
    /// # Errors
    /// A system call failed; the process must end.
    pub(crate) fn relinquish(&self, keep: &[Capability], needs: Needs) -> Result<(), RightsError> {
        self.give_up(keep)?;
        if !self.without_sandbox {
            let report = ringtap_sandbox::confine(&self.with_files(needs));
            // It is called once.
            let _ = self.report.set(report);
        }
        Ok(())
    }

    /// Returns the needs of a run, with the files that this process opens itself.
    fn with_files(&self, mut needs: Needs) -> Needs {
        let own = |path: &&PathBuf| reader_of(path).is_none();
        for path in self.files.inputs.iter().filter(own) {
            needs.read.push(path_for(path));
            needs.read.push(path.clone());
        }
        // Another file takes the place of one that is replaced.
        let renewed = self.files.renewed.iter().filter(own);
        needs.read.extend(renewed.map(|path| folder_of(path)));
        let own = |path: &&PathBuf| writer_of(path).is_none();
        let outputs = self.files.outputs.iter().filter(own);
        needs
            .write
            .extend(outputs.flat_map(|path| written_places(path)));
        if let (Some(series), false) = (&self.files.series, has_writer()) {
            needs.write.push(series.folder());
        }
        for archive in &self.files.archives {
            let probe = archive.path.join(ringtap_record::archive::LOCK);
            match archive.is_written {
                true if writer_of(&probe).is_none() => needs.write.push(archive.path.clone()),
                false if reader_of(&probe).is_none() => needs.read.push(archive.path.clone()),
                _ => {}
            }
        }
        if let Some(store) = self.files.store.as_ref().filter(|_| !has_store()) {
            needs.arrange.push(store.clone());
        }
        needs.read.extend(SYSTEM.iter().map(PathBuf::from));
        if needs.network {
            needs.read.extend(NAMES.iter().map(PathBuf::from));
        }
        needs
    }

    /// Gives up all privileges except the capabilities to keep, and nothing else.
    ///
    /// # Errors
    /// The same as [`Rights::relinquish`].
    pub(crate) fn give_up(&self, keep: &[Capability]) -> Result<(), RightsError> {
        let user = match &self.whom {
            Whom::Same | Whom::Root(_) => None,
            Whom::Chosen(user) | Whom::Unprivileged(user) => Some(user),
        };
        match privileges::relinquish(user, keep) {
            Err(error @ PrivilegeError::Threads(_)) if self.reads_only => {
                notice(format_args!("privileges are kept: {error}"));
                Ok(())
            }
            result => result.map_err(RightsError::Relinquish),
        }
    }

    /// Returns the runner of `-z` commands, if there are any.
    pub(crate) fn take_commands(&mut self) -> Option<CommandRunner> {
        self.commands.take()
    }

    /// Returns the present privileges in words for `--explain-capture`, one line each.
    pub(crate) fn explain(&self) -> String {
        let mut text = String::new();
        if let Ok(held) = Held::by_this_thread() {
            let uid = held.users[1];
            let name = User::by_uid(uid).map_or_else(|_| uid.to_string(), |user| user.name);
            let why = match &self.whom {
                Whom::Root(reason) => format!(" (root's identity stays: {reason})"),
                _ => String::new(),
            };
            text.push_str(&format!("user: {name}{why}, group {}\n", held.groups[1]));
            text.push_str(&format!("capabilities: {}\n", held.permitted));
        }
        if let Some(files) = FILES.get() {
            text.push_str(&format!(
                "files: opened by process {} with the privileges of the user who started the capture\n",
                files.id()
            ));
        }
        if let Some(commands) = &self.commands {
            text.push_str(&format!("-z: run by process {}\n", commands.id()));
        }
        if let Some(process) = CONTAINERS.get().and_then(Asked::id) {
            text.push_str(&format!("names of containers: read by process {process}\n"));
        }
        if let Some(keeper) = self.keeper.get() {
            text.push_str(&keeper.explain());
        }
        match self.report.get() {
            Some(report) => text.push_str(&report.to_string()),
            None => text.push_str("sandbox: none\n"),
        }
        text
    }
}

fn whom(args: &RightsArgs) -> Result<Whom, RightsError> {
    if let Some(name) = &args.user {
        let user = User::by_name(name).map_err(RightsError::User)?;
        return Ok(Whom::Chosen(user));
    }
    if !is_root() {
        return Ok(Whom::Same);
    }
    // If the user database cannot be read, no user is known.
    let user = User::instead_of_root().unwrap_or_default();
    Ok(match user {
        None => {
            let names = privileges::UNPRIVILEGED.join(" or ");
            Whom::Root(format!("no such user: {names}"))
        }
        Some(user) => match privileges::obstacle(&user) {
            Some(obstacle) => Whom::Root(obstacle.to_string()),
            None => Whom::Unprivileged(user),
        },
    })
}

/// Returns whether the process may open files that its user may not after it has given up its privileges, and has
/// these privileges from who started it.
fn has_all_files() -> bool {
    let strong = [Capability::DAC_OVERRIDE, Capability::DAC_READ_SEARCH];
    let held = privileges::capabilities();
    let any = held.is_ok_and(|held| strong.iter().any(|&one| held.permitted.contains(one)));
    any && !is_elevated()
}

/// Ends the helper processes of files and containers, if there are any: the run is over.
pub(crate) fn end() {
    if let Some(client) = FILES.get() {
        client.end();
    }
    if let Some(containers) = CONTAINERS.get() {
        containers.end();
    }
}

/// Returns the helper that may open the file.
fn reader_of(path: &Path) -> Option<&'static Client> {
    FILES.get().filter(|client| client.files.may_read(path))
}

/// Opens a file of the command line for reading, with the privileges of the user who started the program. For
/// a FIFO it does not wait for the writer.
///
/// # Errors
/// The same as open(2).
pub(crate) fn read(path: &Path) -> io::Result<File> {
    match reader_of(path) {
        Some(client) => client.read(path),
        None => helper::open_for_reading(path).map_err(as_user),
    }
}

/// Returns the same, but waits for the writer of a FIFO.
///
/// # Errors
/// The same as open(2).
pub(crate) fn read_blocking(path: &Path) -> io::Result<File> {
    let file = read(path)?;
    if look(path).is_ok_and(Kind::is_fifo) {
        let waited = poll::wait([Interest::read(file.as_fd())], None);
        waited.map_err(|error| error.source)?;
    }
    poll::make_blocking(&file)?;
    Ok(file)
}

/// Returns whether a helper makes the files.
fn has_writer() -> bool {
    FILES
        .get()
        .is_some_and(|client| !client.files.has_no_outputs())
}

/// Returns whether a helper makes the files of the store.
fn has_store() -> bool {
    FILES
        .get()
        .is_some_and(|client| client.files.store.is_some())
}

/// Returns the place of a created or overwritten file: its folder, that of the file behind a link, or the
/// device or FIFO itself.
fn written_places(path: &Path) -> Vec<PathBuf> {
    match path.canonicalize() {
        Ok(real) if !real.is_file() => vec![real],
        Ok(real) => vec![folder_of(path), folder_of(&real)],
        Err(_) => vec![folder_of(path)],
    }
}

/// Returns the folder of a file.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The user of `-Z`, who opens files from now on.
static OPENS_AS: OnceLock<String> = OnceLock::new();

/// Adds to an error that the user of `-Z` opens the file.
fn as_user(error: io::Error) -> io::Error {
    match OPENS_AS.get() {
        Some(user) if error.kind() == io::ErrorKind::PermissionDenied => io::Error::new(
            error.kind(),
            format!("{error}; with -Z, files are opened as user {user}"),
        ),
        _ => error,
    }
}

/// Returns the helper that may write to the file.
fn writer_of(path: &Path) -> Option<&'static Client> {
    FILES.get().filter(|client| client.files.may_write(path))
}

/// Opens a file of the command line for writing, as [`output::open`] does: with the privileges of the user
/// who started the program, or as the user of `-Z`.
///
/// # Errors
/// The same as [`output::open`].
pub(crate) fn write(path: &Path, access: Access, readable: bool) -> io::Result<Output> {
    // This process waits for a FIFO's reader, since the helper would not notice our end.
    loop {
        match try_write(path, access, readable) {
            Err(error)
                if error.raw_os_error() == Some(output::NO_READER)
                    && look(path).is_ok_and(Kind::is_fifo) =>
            {
                std::thread::sleep(READER_WAIT);
            }
            result => return result,
        }
    }
}

/// How often a FIFO without a reader is tried.
const READER_WAIT: Duration = Duration::from_millis(20);

fn try_write(path: &Path, access: Access, readable: bool) -> io::Result<Output> {
    let Some(client) = writer_of(path) else {
        let opened = output::open(path, access, readable).map_err(as_user)?;
        return Ok(opened.into());
    };
    let (file, made) = client.write(path, access, readable)?;
    let path = path.to_owned();
    let undo = made.then(|| -> Undo { Box::new(move || remove(&path)) });
    Ok(Output::new(file, undo))
}

/// Removes a file that was opened by [`write()`].
///
/// # Errors
/// The same as unlink(2).
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match writer_of(path) {
        Some(client) => client.order(Operation::Remove, path),
        None => std::fs::remove_file(path),
    }
}

/// Sends a request to the recorder of a folder. `None` if there is no helper that may: then this process does it.
pub(crate) fn ask_recorder(folder: &Path, name: &str) -> Option<io::Result<()>> {
    let socket = folder.join(ringtap_record::archive::CONTROL);
    let client = FILES
        .get()
        .filter(|client| client.files.is_asked(&socket))?;
    Some(client.order(Operation::Ask, &socket.join(name)))
}

/// Returns the kind of file at a path of the command line.
///
/// # Errors
/// The same as stat(2).
pub(crate) fn look(path: &Path) -> io::Result<Kind> {
    match reader_of(path) {
        Some(client) => client.look(path),
        None => Ok(Kind::of(&path.metadata()?)),
    }
}

/// Returns the input files of the command line, without `-`; of servers the files of TLS.
pub(crate) fn named<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let files = |path: &PathBuf| match over_ip::is_server(path) {
        true => over_ip::files(path),
        false => vec![path.clone()],
    };
    let paths = paths.into_iter().filter(|path| path.as_os_str() != "-");
    paths.flat_map(files).collect()
}
