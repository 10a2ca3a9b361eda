//! Signals: the first SIGINT, SIGTERM or SIGHUP asks for a clean end, the second ends at once;
//! SIGUSR1 asks for the counters so far. A SIGHUP that the process was started to ignore (`nohup`) stays
//! ignored.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_capture::Waker;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// What signals have asked for since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    stop: Arc<AtomicBool>,
    report: Arc<AtomicBool>,
    wakers: Arc<OnceLock<Vec<Waker>>>,
}

/// A second request within this time is the first one seen twice: `timeout` and terminals send a
/// signal to a process and to its group.
const SAME_REQUEST: Duration = Duration::from_millis(500);

impl Requests {
    /// Whether the run shall end.
    pub(crate) fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks for the end, as a signal would.
    pub(crate) fn ask_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Wakes those who wait, to look what there is to do.
    pub(crate) fn wake(&self) {
        for waker in self.wakers.get().into_iter().flatten() {
            waker.wake();
        }
    }

    /// Whether the counters were asked for since the last call.
    pub(crate) fn take_report(&self) -> bool {
        self.report.swap(false, Ordering::Relaxed)
    }
}

impl Requests {
    /// Starts to watch for signals; each one wakes all `wakers`, so that no reader sleeps through
    /// it.
    ///
    /// To be called after privileges were dropped: it starts a thread.
    ///
    /// # Errors
    /// When the handlers can't be installed or the thread can't be started.
    pub(crate) fn watch(&self, wakers: Vec<Waker>) -> io::Result<()> {
        self.start(wakers, true)
    }

    /// [`Requests::watch`] for those that a wake-up ends: a request for counters wakes nobody.
    ///
    /// # Errors
    /// As [`Requests::watch`].
    pub(crate) fn watch_for_end(&self, wakers: Vec<Waker>) -> io::Result<()> {
        self.start(wakers, false)
    }

    fn start(&self, wakers: Vec<Waker>, wakes_for_report: bool) -> io::Result<()> {
        self.wakers.get_or_init(|| wakers);
        let hangup = (!ringtap_sys::signals::is_ignored(SIGHUP)).then_some(SIGHUP);
        let watched = [SIGINT, SIGTERM, SIGUSR1].into_iter().chain(hangup);
        let mut signals = Signals::new(watched)?;
        let seen = self.clone();
        let thread = thread::Builder::new().name("signals".into());
        thread.spawn(move || {
            let mut asked: Option<Instant> = None;
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    seen.report.store(true, Ordering::Relaxed);
                    if !wakes_for_report {
                        continue;
                    }
                } else {
                    let first = *asked.get_or_insert_with(Instant::now);
                    if first.elapsed() > SAME_REQUEST {
                        // Whoever waits for a stuck disk or pipe wants out now.
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    seen.stop.store(true, Ordering::Relaxed);
                }
                seen.wake();
            }
        })?;
        Ok(())
    }
}
