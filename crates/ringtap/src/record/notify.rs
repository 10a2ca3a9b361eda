//! Messages to the service manager (`sd_notify(3)`): the recorder records, is alive, ends.
//!
//! The socket is connected before privileges are given up. Without a service manager nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::notice::notice;

/// The time that the end may take beyond the last request for it.
const EXTEND: Duration = Duration::from_secs(30);

/// The service manager.
#[derive(Debug, Default)]
pub(super) struct Manager {
    socket: Option<UnixDatagram>,
    /// How often it wants to hear that the recorder is alive.
    interval: Option<Duration>,
    /// When it last heard that.
    fed: Option<Instant>,
    /// The state that it last heard.
    state: String,
}

impl Manager {
    /// Connects to the service manager that started this process, if one did. Call it before privileges are
    /// given up.
    pub(super) fn connect() -> Self {
        let variable = |name| std::env::var_os(name);
        let Some(address) = variable("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else {
            return Self::default();
        };
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        let own = u64::from(std::process::id());
        let is_own = number("WATCHDOG_PID").is_none_or(|process| process == own);
        let interval = number("WATCHDOG_USEC").filter(|micros| is_own && *micros > 0);
        match connected(&address) {
            Ok(socket) => Self {
                socket: Some(socket),
                // As sd_watchdog_enabled(3) recommends.
                interval: interval.map(|micros| Duration::from_micros(micros / 2)),
                ..Self::default()
            },
            Err(error) => {
                notice(format_args!(
                    "{}: {error}; the service manager gets no messages",
                    address.display()
                ));
                Self::default()
            }
        }
    }

    /// Reports that packets are recorded from now on.
    pub(super) fn ready(&mut self) {
        self.fed = Some(Instant::now());
        self.send("READY=1\nSTATUS=recording\n");
    }

    /// Reports the failure of the disk, or that there is none, if that is news.
    pub(super) fn tell(&mut self, failure: Option<&str>) {
        let state = match failure {
            Some(failure) => format!("NOT RECORDING: {failure}"),
            None => "recording".to_owned(),
        };
        if self.state != state {
            self.send(&format!("STATUS={}\n", state.replace('\n', " ")));
            self.state = state;
        }
    }

    /// Reports that the recorder is alive, if it is time. `is_alive` is called only then.
    pub(super) fn feed(&mut self, is_alive: impl FnOnce() -> bool) {
        let Some(interval) = self.interval else {
            return;
        };
        let is_due = self.fed.is_none_or(|fed| fed.elapsed() >= interval);
        if is_due && is_alive() {
            self.fed = Some(Instant::now());
            self.send("WATCHDOG=1\n");
        }
    }

    /// Reports that the recorder ends.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=completing files\n");
    }

    /// Asks for more time to end, now and then.
    pub(super) fn extend(&mut self) {
        let is_due = self.fed.is_none_or(|fed| fed.elapsed() >= EXTEND / 3);
        if is_due && self.socket.is_some() {
            self.fed = Some(Instant::now());
            self.send(&format!("EXTEND_TIMEOUT_USEC={}\n", EXTEND.as_micros()));
        }
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // A manager that restarts misses a message, and gets the next one.
            let _ = socket.send(message.as_bytes());
        }
    }
}

fn connected(address: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match address.as_bytes() {
        [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(address)?,
    }
    Ok(socket)
}
