//! Triggers: a condition, or a request, copies the packets around it out of the rotation.
//!
//! The capture threads look for conditions ([`Watch`]) and send those that occur to the main thread. That
//! waits until the window is over, and copies it ([`Incidents`]).

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use ringtap_capture::{Block, Filter, Interface, Matcher, Packet, Stats, Timestamp};
use ringtap_packet::MAX_SNAPLEN;
use ringtap_record::archive::{Archive, CONTROL, Copied, INCIDENTS, Window, nanos, safe, stamp};
use ringtap_savefile::Codec;
use serde::Serialize;

use super::error::RecorderError;
use super::filtered;
use crate::cli::{RecorderTriggerArgs, TriggerArgs};
use crate::extract::ExtractError;
use crate::notice::{counted, notice};
use crate::rights;
use crate::values::{Condition, Trigger};
use ringtap_sys::output::Access;

/// How long after a window's end its packets are in files.
const SETTLED: Duration = Duration::from_millis(1200);
/// The longest request.
const LONGEST: usize = 256;
/// How long a recorder may be busy.
const PATIENCE: Duration = Duration::from_secs(5);
/// The name of the copies that a signal requests.
const SIGNAL: &str = "signal";
/// The time over which rates are measured.
const SECOND: Duration = Duration::from_secs(1);

/// A condition that occurred, or a request.
#[derive(Clone, Debug)]
pub(super) struct Fired {
    pub(super) name: String,
    pub(super) reason: String,
    pub(super) at: Timestamp,
}

/// The conditions that a device's packets are compared with.
pub(super) struct Watch {
    conditions: Vec<Watched>,
    sender: Sender<Fired>,
    device: String,
    /// When rates were last compared.
    since: Instant,
    /// The losses that were known then.
    lost: Option<u64>,
}

struct Watched {
    trigger: Trigger,
    /// The programs of the interfaces. Empty if the condition is not about packets.
    programs: Vec<Matcher>,
    matched: u64,
    /// It occurred, and is not looked for until then.
    quiet_until: Option<Instant>,
}

impl Watch {
    /// Compiles the filters for a device's interfaces. `None` if there are no conditions.
    ///
    /// # Errors
    /// A filter is invalid, or not for the link type.
    pub(super) fn new(
        args: &RecorderTriggerArgs,
        device: &str,
        interfaces: &[Interface],
        sender: Sender<Fired>,
    ) -> Result<Option<Self>, RecorderError> {
        let mut conditions = Vec::new();
        if let Some(filter) = args.trigger_filter.as_deref().map(filter_of) {
            for interface in interfaces {
                filter.compile(interface.link_type, MAX_SNAPLEN)?;
            }
        }
        for trigger in &args.trigger {
            let filter = match &trigger.condition {
                Condition::Packet(filter) | Condition::Rate { filter, .. } => Some(filter),
                Condition::Loss { .. } => None,
            };
            let filter = filter.map(|text| filter_of(text));
            let compile = |filter: &Filter, interface: &Interface| {
                let program = filter.compile(interface.link_type, MAX_SNAPLEN)?;
                Ok::<_, RecorderError>(Matcher::new(program))
            };
            let programs = match &filter {
                Some(filter) => {
                    let programs = interfaces.iter().map(|one| compile(filter, one));
                    programs.collect::<Result<Vec<_>, _>>()?
                }
                None => Vec::new(),
            };
            conditions.push(Watched {
                trigger: trigger.clone(),
                programs,
                matched: 0,
                quiet_until: None,
            });
        }
        Ok((!conditions.is_empty()).then(|| Self {
            conditions,
            sender,
            device: device.to_owned(),
            since: Instant::now(),
            lost: None,
        }))
    }

    /// Compares the packets of a block.
    pub(super) fn block(&mut self, block: &Block<'_>) {
        let Self {
            conditions,
            sender,
            device,
            ..
        } = self;
        for watched in conditions.iter_mut().filter(|one| !one.programs.is_empty()) {
            let programs = &watched.programs;
            let is_match = |packet: &Packet<'_>| {
                let program = programs.get(packet.interface as usize);
                program.is_some_and(|program| program.accepts(packet))
            };
            match &watched.trigger.condition {
                Condition::Rate { .. } => {
                    watched.matched += block.packets().filter(is_match).count() as u64;
                }
                Condition::Packet(_) if watched.is_quiet() => {}
                Condition::Packet(filter) => {
                    if let Some(packet) = block.packets().find(is_match) {
                        let reason = format!("{device}: a packet matches: {filter}");
                        watched.fire(sender, reason, packet.timestamp);
                    }
                }
                Condition::Loss { .. } => {}
            }
        }
    }

    /// Compares rates and losses, once a second.
    pub(super) fn tick(&mut self, stats: &Stats, lost_by_writer: u64) {
        let passed = self.since.elapsed();
        if passed < SECOND {
            return;
        }
        self.since = Instant::now();
        let dropped = &stats.dropped;
        let places = [
            dropped.hook,
            dropped.ring,
            dropped.interface,
            dropped.application,
        ];
        let lost = places.into_iter().flatten().sum::<u64>() + lost_by_writer;
        let more = self.lost.map_or(0, |before| lost.saturating_sub(before));
        self.lost = Some(lost);
        let (device, sender) = (&self.device, &self.sender);
        for watched in &mut self.conditions {
            let matched = std::mem::take(&mut watched.matched);
            if watched.is_quiet() {
                continue;
            }
            let reason = match &watched.trigger.condition {
                Condition::Loss { above } if more > *above => {
                    format!("{device}: {} lost within a second", counted(more, "packet"))
                }
                Condition::Rate { filter, above } => {
                    #[expect(clippy::cast_precision_loss, reason = "a rate")]
                    let rate = matched as f64 / passed.as_secs_f64();
                    if rate <= *above {
                        continue;
                    }
                    format!("{device}: {rate:.0} packets a second match: {filter}")
                }
                _ => continue,
            };
            watched.fire(sender, reason, Timestamp::now());
        }
    }
}

impl Watched {
    fn is_quiet(&self) -> bool {
        self.quiet_until.is_some_and(|until| Instant::now() < until)
    }

    fn fire(&mut self, sender: &Sender<Fired>, reason: String, at: Timestamp) {
        // The main thread has the cool-down of all devices; this only saves it work.
        self.quiet_until = Some(Instant::now() + SECOND);
        let fired = Fired {
            name: self.trigger.name.clone(),
            reason,
            at,
        };
        // Without a receiver the run is over.
        let _ = sender.send(fired);
    }
}

/// Returns the filter of a trigger, or of its copies.
fn filter_of(text: &str) -> Filter {
    Filter::new(text).with_extensions(true)
}

/// The copies of a run.
pub(super) struct Incidents {
    socket: Option<UnixDatagram>,
    fired: Receiver<Fired>,
    before: Duration,
    after: Duration,
    cool_down: Duration,
    access: Access,
    /// The packets that are copied, and how their file is compressed. `None` for all, as they are in the files.
    filter: Option<Filter>,
    codec: Option<Codec>,
    /// The windows that are not over.
    pending: Vec<Fired>,
    /// When each trigger was last obeyed.
    last: BTreeMap<String, Instant>,
}

/// The reason of a copy, beside it.
#[derive(Serialize)]
struct Reason<'a> {
    trigger: &'a str,
    reason: &'a str,
    /// Seconds since the epoch.
    at: f64,
    from: f64,
    to: f64,
    files: Vec<String>,
    packets: u64,
    cut_packets: u64,
    cut_bytes: u64,
    missing_chunks: u64,
}

impl Incidents {
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

    pub(super) fn new(
        socket: UnixDatagram,
        fired: Receiver<Fired>,
        args: &RecorderTriggerArgs,
        (codec, access): (Option<Codec>, Access),
    ) -> Self {
        Self {
            filter: args.trigger_filter.as_deref().map(filter_of),
            codec,
            socket: Some(socket),
            fired,
            before: args.before,
            after: args.after,
            cool_down: args.cool_down,
            access,
            pending: Vec::new(),
            last: BTreeMap::new(),
        }
    }

    /// Takes requests and conditions, and copies the windows that are over. `is_last` copies all of them.
    pub(super) fn look(&mut self, archive: &Archive, is_last: bool) {
        self.take_requests();
        let fired: Vec<Fired> = self.fired.try_iter().collect();
        fired.into_iter().for_each(|fired| self.obey(fired));
        let now = Timestamp::now();
        let settled = self.after + SETTLED;
        let is_over = |fired: &Fired| is_last || nanos(now) >= later(fired.at, settled);
        let (over, pending): (Vec<Fired>, Vec<Fired>) = self.pending.drain(..).partition(is_over);
        self.pending = pending;
        for fired in &over {
            self.copy(archive, fired);
        }
        let starts = self
            .pending
            .iter()
            .map(|fired| earlier(fired.at, self.before));
        archive.hold(starts.min());
    }

    /// Notes that SIGUSR1 came.
    pub(super) fn signalled(&mut self) {
        self.obey(Fired {
            name: SIGNAL.to_owned(),
            reason: "SIGUSR1".to_owned(),
            at: Timestamp::now(),
        });
    }

    fn take_requests(&mut self) {
        let Some(socket) = &self.socket else { return };
        let mut bytes = [0; LONGEST];
        let mut names = Vec::new();
        while let Ok(length) = socket.recv(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            names.push(text);
        }
        for name in names {
            self.obey(Fired {
                name: safe(&name),
                reason: "requested".to_owned(),
                at: Timestamp::now(),
            });
        }
    }

    /// Notes a window, unless its trigger is in its cool-down.
    fn obey(&mut self, fired: Fired) {
        let last = self.last.get(&fired.name);
        if last.is_some_and(|last| last.elapsed() < self.cool_down) {
            return;
        }
        self.last.insert(fired.name.clone(), Instant::now());
        notice(format_args!("trigger {}: {}", fired.name, fired.reason));
        self.pending.push(fired);
    }

    fn copy(&self, archive: &Archive, fired: &Fired) {
        let window = Window {
            from: Some(earlier(fired.at, self.before)),
            to: Some(later(fired.at, self.after)),
        };
        let prefix = format!("{}-{}", stamp(nanos(fired.at)), fired.name);
        let copied = match self.copy_packets(archive, window, &prefix) {
            Ok(copied) => copied,
            Err(error) => {
                notice(format_args!(
                    "trigger {}: nothing is copied: {error}",
                    fired.name
                ));
                return;
            }
        };
        let names = copied.files.iter().filter_map(|path| path.file_name());
        let seconds = |nanos: i64| {
            #[expect(clippy::cast_precision_loss, reason = "microseconds are enough")]
            let nanos = nanos as f64;
            (nanos / 1e3).round() / 1e6
        };
        let reason = Reason {
            trigger: &fired.name,
            reason: &fired.reason,
            at: seconds(nanos(fired.at)),
            from: seconds(window.from.unwrap_or(0)),
            to: seconds(window.to.unwrap_or(0)),
            files: names
                .map(|name| name.to_string_lossy().into_owned())
                .collect(),
            packets: copied.packets,
            cut_packets: copied.cut.packets,
            cut_bytes: copied.cut.bytes,
            missing_chunks: copied.missing,
        };
        let path = archive
            .folder()
            .join(INCIDENTS)
            .join(format!("{prefix}.json"));
        let text = serde_json::to_string(&reason).unwrap_or_default();
        let written = rights::write(&path, self.access, true)
            .and_then(ringtap_sys::output::Output::emptied)
            .and_then(|mut file| writeln!(file, "{text}"));
        if let Err(error) = written {
            notice(format_args!("{}: {error}", path.display()));
        }
        notice(format_args!(
            "trigger {}: {} copied to {}",
            fired.name,
            counted(copied.packets, "packet"),
            path.with_extension("").display()
        ));
    }

    fn copy_packets(
        &self,
        archive: &Archive,
        window: Window,
        prefix: &str,
    ) -> Result<Copied, ExtractError> {
        match &self.filter {
            None => {
                let copied = archive.copy(window, prefix);
                copied.map_err(|error| RecorderError::folder(archive.folder())(error).into())
            }
            Some(filter) => {
                let how = (filter, self.codec, self.access);
                filtered::copy(archive, window, prefix, how)
            }
        }
    }

    /// Removes the socket.
    pub(super) fn end(mut self, archive: &Archive) {
        self.look(archive, true);
        self.socket = None;
        // The next start removes it too.
        let _ = rights::remove(&archive.folder().join(CONTROL));
    }
}

/// Binds a socket that nobody else can ever send to: in a private folder, and with its mode it moves to `path`.
fn bind_privately(path: &Path) -> io::Result<UnixDatagram> {
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

fn earlier(at: Timestamp, by: Duration) -> i64 {
    nanos(at).saturating_sub(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX))
}

fn later(at: Timestamp, by: Duration) -> i64 {
    nanos(at).saturating_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX))
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
    socket.send_to(name.as_bytes(), folder.join(CONTROL))?;
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
