//! Triggers and requests that were obeyed, until the windows of time around them are over and copied
//! ([`Copier`]).

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use ringtap_capture::Timestamp;
use ringtap_record::archive::{Archive, CONTROL, Window, nanos, safe};

use super::copier::Copier;
use super::trigger::Fired;
use crate::cli::RecorderTriggerArgs;
use crate::notice::{Fields, warning};
use crate::rights;

/// How long after a window's end its packets are in files.
const SETTLED: Duration = Duration::from_millis(1200);
/// The longest request.
const LONGEST: usize = 256;
/// The name of the copies that a signal requests.
const SIGNAL: &str = "signal";

/// Windows that may wait for their end or their copy.
const WAITING: usize = 64;

/// The requests and conditions of a run, and their windows until these are copied.
pub(super) struct Incidents {
    socket: Option<UnixDatagram>,
    fired: Receiver<Fired>,
    before: Duration,
    after: Duration,
    cool_down: Duration,
    /// The windows that are not over.
    pending: Vec<Fired>,
    /// Copies the others. The starts of their windows, the one that is copied first.
    copier: Copier,
    copying: VecDeque<i64>,
    /// When each trigger was last obeyed.
    last: BTreeMap<String, Instant>,
}

impl Incidents {
    pub(super) fn new(
        (socket, fired): (UnixDatagram, Receiver<Fired>),
        args: &RecorderTriggerArgs,
        copier: Copier,
    ) -> Self {
        Self {
            socket: Some(socket),
            fired,
            before: args.before,
            after: args.after,
            cool_down: args.cool_down,
            pending: Vec::new(),
            copier,
            copying: VecDeque::new(),
            last: BTreeMap::new(),
        }
    }

    /// Takes requests and conditions, and has the windows copied that are over. `is_last` has all of them copied.
    pub(super) fn look(&mut self, archive: &Archive, is_last: bool) {
        self.take_requests();
        let fired: Vec<Fired> = self.fired.try_iter().collect();
        fired.into_iter().for_each(|fired| self.obey(fired));
        let now = Timestamp::now();
        let settled = self.after + SETTLED;
        let is_over = |fired: &Fired| is_last || nanos(now) >= later(fired.at, settled);
        let (over, pending): (Vec<Fired>, Vec<Fired>) = self.pending.drain(..).partition(is_over);
        self.pending = pending;
        for fired in over {
            let window = Window {
                from: Some(earlier(fired.at, self.before)),
                to: Some(later(fired.at, self.after)),
            };
            self.copying.push_back(window.from.unwrap_or(0));
            self.copier.copy(fired, window);
        }
        self.hold(archive);
    }

    /// Keeps the files of windows that are not copied.
    fn hold(&mut self, archive: &Archive) {
        self.copying
            .drain(..self.copier.take_done().min(self.copying.len()));
        let pending = self.pending.iter();
        let starts = pending.map(|fired| earlier(fired.at, self.before));
        archive.hold(starts.chain(self.copying.iter().copied()).min());
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
        let mut bytes = [0; LONGEST];
        while let Some(Ok(length)) = self.socket.as_ref().map(|one| one.recv(&mut bytes)) {
            self.obey(Fired {
                name: safe(&String::from_utf8_lossy(&bytes[..length])),
                reason: "requested".to_owned(),
                at: Timestamp::now(),
            });
        }
    }

    /// Notes a window, unless its trigger is in its cool-down.
    fn obey(&mut self, fired: Fired) {
        self.last.retain(|_, last| last.elapsed() < self.cool_down);
        if self.last.contains_key(&fired.name) {
            return;
        }
        if self.pending.len() + self.copying.len() >= WAITING {
            self.copier.ignore();
            warning(
                &Fields::default().with("trigger", &fired.name),
                format_args!(
                    "trigger {}: ignored, since {WAITING} copies wait",
                    fired.name
                ),
            );
            return;
        }
        self.last.insert(fired.name.clone(), Instant::now());
        warning(
            &Fields::default().with("trigger", &fired.name),
            format_args!("trigger {}: {}", fired.name, fired.reason),
        );
        self.pending.push(fired);
    }

    /// Has the remaining windows copied, and removes the socket. `meanwhile` is called often.
    pub(super) fn end(mut self, archive: &Archive, meanwhile: impl FnMut()) {
        self.look(archive, true);
        self.copier.end(meanwhile);
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
