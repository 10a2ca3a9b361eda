//! The socket by which a running recorder takes requests.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ringtap_record::archive::{CONTROL, safe};

use super::error::RecorderError;
use crate::cli::TriggerArgs;
use crate::rights;

/// How long a recorder may be busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the socket for requests. Call it before privileges are given up, and after the folder was locked.
pub(super) fn listen(folder: &Path) -> Result<UnixDatagram, RecorderError> {
    let path = folder.join(CONTROL);
    let failed = RecorderError::folder;
    // That of a recorder that was killed.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed(&path)(error));
        }
        _ => {}
    }
    bind_privately(&path).map_err(failed(&path))
}

/// Binds a socket that nobody else can ever send to: in a private folder, and with its mode it moves to `path`.
fn bind_privately(path: &Path) -> io::Result<UnixDatagram> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let (_folder, short) = short(folder)?;
    let path = &short.join(CONTROL);
    let private = path.with_extension("new");
    let inside = private.join(CONTROL);
    // Those of a recorder that was killed.
    let _ = std::fs::remove_file(&inside);
    let _ = std::fs::remove_dir(&private);
    std::fs::DirBuilder::new().mode(0o700).create(&private)?;
    let socket = UnixDatagram::bind(&inside)?;
    std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o600))?;
    socket.set_nonblocking(true)?;
    std::fs::rename(&inside, path)?;
    std::fs::remove_dir(&private)?;
    Ok(socket)
}

/// The longest path of a socket, with the parts that are added here (`sun_path`, unix(7)).
const LONGEST: usize = 80;

/// Returns a path of a folder that is short enough for sockets in it, and the folder, which must stay open.
fn short(folder: &Path) -> io::Result<(Option<File>, PathBuf)> {
    if folder.as_os_str().len() <= LONGEST {
        return Ok((None, folder.to_owned()));
    }
    let open = File::open(folder)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    Ok((Some(open), path))
}

/// Requests a copy from a running recorder.
pub(super) fn request(args: &TriggerArgs) -> Result<ExitCode, RecorderError> {
    let socket = sending().map_err(RecorderError::folder(&args.dir))?;
    let sent = send(&socket, &args.dir, &args.name);
    sent.map(|()| ExitCode::SUCCESS)
        .map_err(|error| refused(&args.dir, error))
}

/// Returns a socket for requests.
///
/// # Errors
/// It cannot be made.
pub(crate) fn sending() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Sends the request for a copy of this name to the recorder of a folder.
///
/// # Errors
/// No recorder runs in the folder, or the user may not send to it.
pub(crate) fn send(socket: &UnixDatagram, folder: &Path, name: &str) -> io::Result<()> {
    let (_folder, short) = short(folder)?;
    socket.send_to(name.as_bytes(), short.join(CONTROL))?;
    Ok(())
}

fn refused(folder: &Path, error: io::Error) -> RecorderError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => RecorderError::NotRunning {
            folder: folder.to_owned(),
        },
        _ => RecorderError::folder(&folder.join(CONTROL))(error),
    }
}

/// Sends requests to a recorder in the course of a longer run, whose privileges are given up.
#[derive(Debug)]
pub(crate) struct Requester {
    folder: PathBuf,
    socket: UnixDatagram,
}

impl Requester {
    /// Makes a socket for the requests. Call it before privileges are given up.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn new(folder: &Path) -> Result<Self, RecorderError> {
        Ok(Self {
            folder: folder.to_owned(),
            socket: sending().map_err(RecorderError::folder(folder))?,
        })
    }

    /// Requests a copy of this name.
    ///
    /// # Errors
    /// No recorder runs in the folder, or the user may not send to it.
    pub(crate) fn request(&self, name: &str) -> Result<(), RecorderError> {
        let name = safe(name);
        let sent = match rights::ask_recorder(&self.folder, &name) {
            Some(sent) => sent,
            None => send(&self.socket, &self.folder, &name),
        };
        sent.map_err(|error| refused(&self.folder, error))
    }
}
