//! The process that knows the names of containers.
//!
//! Only root may read the files of runtimes, and the process that reads packets is no longer root's. A copy of it,
//! made before, reads them. It is asked for the path of a control group and answers with names, nothing else.

use std::os::fd::AsFd as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringtap_packet::process::ContainerNames;
use ringtap_sys::cgroup;
use ringtap_sys::helper::{Channel, Helper};
use ringtap_sys::poll::{self, Interest};

use super::runtimes::Runtimes;

/// The longest question and answer, in bytes. A path has at most 4096.
const LONGEST: usize = 4096;
/// How long an answer may take. There are no further questions until it has come.
const PATIENCE: Duration = Duration::from_millis(250);
/// Time that all answers may take: so much, and one part of the time since the start. The thread that reads packets
/// waits for them.
const ALLOWED: Duration = Duration::from_secs(1);
const PART: u32 = 20;

/// The name, the image and the pod of a container, as they are sent.
type Message = (String, String, String);

/// The channel to the process.
#[derive(Debug)]
pub(crate) struct Asked(Mutex<State>);

#[derive(Debug)]
struct State {
    helper: Option<Helper>,
    /// An answer has not come in time.
    is_due: bool,
    started: Instant,
    /// The time that all answers took.
    spent: Duration,
}

impl Asked {
    /// Starts the process. `before` is run in it first; it returns whether the process can go on.
    pub(crate) fn start(before: impl FnOnce() -> bool) -> ringtap_sys::Result<Self> {
        let helper = Helper::start("ringtap-names", |channel| {
            // It may need a privilege.
            let runtimes = Runtimes::new(cgroup::open_root().ok());
            if before() {
                serve(channel, &runtimes);
            }
        })?;
        Ok(Self(Mutex::new(State {
            helper: Some(helper),
            is_due: false,
            started: Instant::now(),
            spent: Duration::ZERO,
        })))
    }

    /// Returns the process id. `None` after the end.
    pub(crate) fn id(&self) -> Option<u32> {
        self.locked().helper.as_ref().map(Helper::id)
    }

    /// Ends the process, and waits for it, unless it waits for something itself, such as a disk.
    pub(crate) fn end(&self) {
        let mut state = self.locked();
        let helper = state.helper.take();
        if state.is_due {
            // Its channel ends with this process, and so does it when it goes on.
            std::mem::forget(helper);
        }
    }

    /// Returns the names of the container of a control group. `None` if it cannot be found out now.
    pub(crate) fn names(&self, group: &str) -> Option<ContainerNames> {
        let mut state = self.locked();
        let asked = Instant::now();
        let allowed = ALLOWED + asked.duration_since(state.started) / PART;
        if state.spent > allowed || group.len() > LONGEST {
            return None;
        }
        let channel = state.helper.as_ref()?.channel();
        if state.is_due && !matches!(channel.try_receive(&mut [0; LONGEST]), Ok(Some(1..))) {
            return None;
        }
        let answer = ask(channel, group);
        state.is_due = answer.is_err();
        state.spent += asked.elapsed();
        let (name, image, pod) = answer.ok()??;
        Some(ContainerNames { name, image, pod })
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process did not answer.
struct Silence;

fn ask(channel: &Channel, group: &str) -> Result<Option<Message>, Silence> {
    channel.try_send(group.as_bytes()).map_err(|_| Silence)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let ready = poll::wait([Interest::read(channel.as_fd())], Some(left));
        // A signal ends a wait early.
        match ready.map_err(|_| Silence)? {
            [ready] if ready.readable || ready.failed => break,
            _ if left.is_zero() => return Err(Silence),
            _ => {}
        }
    }
    let mut buffer = [0; LONGEST];
    match channel.receive(&mut buffer) {
        Ok(Some((length, _))) => serde_json::from_slice(&buffer[..length]).map_err(|_| Silence),
        Ok(None) | Err(_) => Err(Silence),
    }
}

/// Answers until the other process has ended.
fn serve(channel: &Channel, runtimes: &Runtimes) {
    let mut buffer = [0; LONGEST];
    while let Ok(Some((length, _))) = channel.receive(&mut buffer) {
        let group = String::from_utf8_lossy(&buffer[..length]);
        let found = runtimes.names(&group);
        let message: Option<Message> = found.map(|it| (it.name, it.image, it.pod));
        let answer = serde_json::to_vec(&message).unwrap_or_default();
        // Control characters take six bytes each.
        let answer = match answer.len() {
            1..=LONGEST => answer.as_slice(),
            _ => b"null",
        };
        if channel.send(answer, None).is_err() {
            return;
        }
    }
}
