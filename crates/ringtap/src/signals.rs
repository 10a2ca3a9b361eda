//! Signals. The first SIGINT, SIGTERM or SIGHUP requests a clean end, the second ends at once; SIGUSR1
//! requests the counters so far. If SIGHUP was ignored at the start (`nohup`), it stays ignored. A command that
//! can read its files again does so at SIGHUP, unless it was started at a terminal, whose end SIGHUP reports.

use std::fmt;
use std::io::{self, IsTerminal as _, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_capture::Waker;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::setup::{SetupError, setup};

/// The requests that came by signal since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    stop: Arc<AtomicBool>,
    report: Arc<AtomicBool>,
    wakers: Arc<OnceLock<Vec<Waker>>>,
    /// Called before a signal ends the program at once.
    farewell: Arc<OnceLock<fn()>>,
    /// Called at SIGHUP instead of ending.
    reload: Arc<OnceLock<Reload>>,
}

/// Reads files again.
struct Reload(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reload")
    }
}

/// A second request within this time counts as the first one: `timeout` and terminals send a signal to a
/// process and to its group.
const SAME_REQUEST: Duration = Duration::from_millis(500);

impl Requests {
    /// Returns whether the run should end.
    pub(crate) fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Requests the end, as a signal would.
    pub(crate) fn ask_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Sets the function that is called before a second signal ends the program at once. It must not wait.
    pub(crate) fn before_abort(&self, farewell: fn()) {
        self.farewell.get_or_init(|| farewell);
    }

    /// Sets the function that is called at SIGHUP. It has no effect for a program that was started at a terminal.
    pub(crate) fn at_hangup(&self, reload: impl Fn() + Send + Sync + 'static) {
        if !io::stdin().is_terminal() {
            self.reload.get_or_init(|| Reload(Box::new(reload)));
        }
    }

    /// Wakes the waiting threads, so that they check for requests.
    pub(crate) fn wake(&self) {
        for waker in self.wakers.get().into_iter().flatten() {
            waker.wake();
        }
    }

    /// Returns whether the counters were requested since the last call.
    pub(crate) fn take_report(&self) -> bool {
        self.report.swap(false, Ordering::Relaxed)
    }
}

impl Requests {
    /// Starts to watch for signals. Each signal wakes all `wakers`, so that no reader sleeps through it.
    ///
    /// Call it after privileges were dropped, since it starts a thread.
    ///
    /// # Errors
    /// The handlers cannot be installed, or the thread cannot be started.
    pub(crate) fn watch(&self, wakers: Vec<Waker>) -> Result<(), SetupError> {
        self.start(wakers, true)
    }

    /// The same as [`Requests::watch`], for readers that end when they are woken: a request for counters
    /// wakes nobody.
    ///
    /// # Errors
    /// The same errors as [`Requests::watch`].
    pub(crate) fn watch_for_end(&self, wakers: Vec<Waker>) -> Result<(), SetupError> {
        self.start(wakers, false)
    }

    /// Starts to read standard input: data requests the counters so far, its end the end of the run. Call it after
    /// [`Requests::watch`].
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn watch_input(&self) -> Result<(), SetupError> {
        let requests = self.clone();
        let thread = thread::Builder::new().name("input".into());
        let started = thread.spawn(move || {
            let mut piece = [0; 512];
            loop {
                match io::stdin().lock().read(&mut piece) {
                    Ok(1..) => requests.report.store(true, Ordering::Relaxed),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    // An input that fails has ended, too.
                    Ok(0) | Err(_) => break,
                }
                requests.wake();
            }
            requests.ask_stop();
        });
        started
            .map(drop)
            .map_err(|source| setup("read standard input", source))
    }

    fn start(&self, wakers: Vec<Waker>, wakes_for_report: bool) -> Result<(), SetupError> {
        let started = self.spawn(wakers, wakes_for_report);
        started.map_err(|source| setup("watch for signals", source))
    }

    fn spawn(&self, wakers: Vec<Waker>, wakes_for_report: bool) -> io::Result<()> {
        self.wakers.get_or_init(|| wakers);
        let hangup = (!ringtap_sys::signals::is_ignored(SIGHUP)).then_some(SIGHUP);
        let watched = [SIGINT, SIGTERM, SIGUSR1].into_iter().chain(hangup);
        let mut signals = Signals::new(watched)?;
        let seen = self.clone();
        let thread = thread::Builder::new().name("signals".into());
        thread.spawn(move || {
            let mut asked: Option<Instant> = None;
            for signal in signals.forever() {
                let reload = seen.reload.get().filter(|_| signal == SIGHUP);
                if let Some(reload) = reload {
                    (reload.0)();
                    continue;
                }
                if signal == SIGUSR1 {
                    seen.report.store(true, Ordering::Relaxed);
                    if !wakes_for_report {
                        continue;
                    }
                } else {
                    let first = *asked.get_or_insert_with(Instant::now);
                    if first.elapsed() > SAME_REQUEST {
                        if let Some(farewell) = seen.farewell.get() {
                            farewell();
                        }
                        // The user wants to end although a disk or pipe is stuck.
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
