//! The copies of windows of time that triggers asked for, which the rotation leaves.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use ringtap_capture::{Filter, Timestamp};
use ringtap_record::archive::{Archive, CONTROL, Copied, INCIDENTS, Window, nanos, safe, stamp};
use ringtap_savefile::Codec;
use ringtap_sys::output::Access;
use serde::Serialize;

use super::error::RecorderError;
use super::filtered;
use super::trigger::{Fired, filter_of};
use crate::cli::RecorderTriggerArgs;
use crate::extract::ExtractError;
use crate::notice::{counted, notice};
use crate::rights;

/// How long after a window's end its packets are in files.
const SETTLED: Duration = Duration::from_millis(1200);
/// The longest request.
const LONGEST: usize = 256;
/// The name of the copies that a signal requests.
const SIGNAL: &str = "signal";

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

fn earlier(at: Timestamp, by: Duration) -> i64 {
    nanos(at).saturating_sub(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX))
}

fn later(at: Timestamp, by: Duration) -> i64 {
    nanos(at).saturating_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX))
}
