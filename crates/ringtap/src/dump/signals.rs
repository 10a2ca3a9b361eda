//! Signals: the first SIGINT, SIGTERM or SIGHUP asks for a clean end, the second ends at once;
//! SIGUSR1 asks for the counters so far.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ringtap_capture::Waker;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// What signals have asked for since the start.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    stop: Arc<AtomicBool>,
    report: Arc<AtomicBool>,
    wakers: Arc<[Waker]>,
}

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

    fn wake(&self) {
        for waker in &*self.wakers {
            waker.wake();
        }
    }

    /// Whether the counters were asked for since the last call.
    pub(crate) fn take_report(&self) -> bool {
        self.report.swap(false, Ordering::Relaxed)
    }
}

/// Starts to watch for signals; each one wakes all `wakers`, so that no reader sleeps through it.
///
/// To be called after privileges were dropped: it starts a thread.
///
/// # Errors
/// When the handlers can't be installed or the thread can't be started.
pub(crate) fn watch(wakers: Vec<Waker>) -> io::Result<Requests> {
    let requests = Requests {
        stop: Arc::default(),
        report: Arc::default(),
        wakers: wakers.into(),
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1])?;
    let seen = requests.clone();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    seen.report.store(true, Ordering::Relaxed);
                } else if seen.stop.swap(true, Ordering::Relaxed) {
                    // Asked twice: whoever waits for a stuck disk or pipe wants out now.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                seen.wake();
            }
        })?;
    Ok(requests)
}
