//! Wireshark's toolbar for a capture: two fields with captured and lost packets, and a log.
//!
//! Wireshark makes two pipes for it, which are opened before privileges are given up. Nothing here waits for Wireshark:
//! the pipes do not block, and values that do not fit into them are sent again later. tshark has no toolbar.
//!
//! A message in a pipe has the letter `T`, the length of the rest in 3 bytes (big endian), the number of the control,
//! a command, and its value (Wireshark's developer guide, section on extcap).

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringtap_sys::poll::NON_BLOCKING;

use crate::notice::counted_as;

/// How often the fields are updated.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// The longest value, in bytes: a pipe takes messages up to `PIPE_BUF` (4096 bytes) whole or not at all (pipe(7)).
const LONGEST: usize = 4000;
/// The beginning of a message.
const SYNC: u8 = b'T';

/// Commands to a control: set its value, add to it, or make it insensitive to the user.
const SET: u8 = 1;
const ADD: u8 = 2;
const DISABLE: u8 = 5;

/// The numbers of the controls.
const CAPTURED: u8 = 0;
const LOST: u8 = 1;
const LOG: u8 = 2;

/// A control as Wireshark asks for it: the parts of its sentence behind the number.
pub(crate) type Control = (u8, &'static [(&'static str, &'static str)]);

/// All controls.
pub(crate) const CONTROLS: [Control; 3] = [
    (
        CAPTURED,
        &[
            ("type", "string"),
            ("display", "Captured"),
            ("tooltip", "Packets that the capture has written"),
        ],
    ),
    (
        LOST,
        &[
            ("type", "string"),
            ("display", "Lost"),
            ("tooltip", "Packets that were lost, by the place where"),
        ],
    ),
    (
        LOG,
        &[
            ("type", "button"),
            ("role", "logger"),
            ("display", "Log"),
            ("tooltip", "Messages of ringtap"),
        ],
    ),
];

/// The toolbar of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Toolbar(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    output: File,
    input: Option<File>,
    /// When the fields are updated next.
    due: Instant,
    /// The values that Wireshark has of the fields.
    captured: String,
    lost: String,
    /// The last lines of the log.
    log: String,
}

impl Toolbar {
    /// Opens Wireshark's pipes: the one that it writes to, if there is one, and the one that it reads.
    ///
    /// # Errors
    /// A pipe cannot be opened.
    pub(crate) fn open(input: Option<&Path>, output: &Path) -> io::Result<Self> {
        let mut reading = OpenOptions::new();
        reading.read(true).custom_flags(NON_BLOCKING);
        // A pipe that is opened for both does not wait for a reader (fifo(7)).
        let mut both = OpenOptions::new();
        both.read(true).write(true).custom_flags(NON_BLOCKING);
        let toolbar = State {
            input: input.map(|path| reading.open(path)).transpose()?,
            output: both.open(output)?,
            due: Instant::now(),
            captured: String::new(),
            lost: String::new(),
            log: String::new(),
        };
        for field in [CAPTURED, LOST] {
            toolbar.send(field, DISABLE, "");
        }
        Ok(Self(Arc::new(Mutex::new(toolbar))))
    }

    /// Returns whether the fields should be updated.
    pub(crate) fn is_due(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        let is_due = state.due <= now;
        if is_due {
            state.due = now + INTERVAL;
        }
        is_due
    }

    /// Shows the counters. The log gets losses that are new.
    pub(crate) fn show(&self, captured: u64, lost: &str) {
        let mut state = self.state();
        if state.has_input() {
            state.start_again();
        }
        let captured = captured.to_string();
        if state.captured != captured && state.send(CAPTURED, SET, &captured) {
            state.captured = captured;
        }
        if state.lost != lost && state.send(LOST, SET, lost) {
            if !state.lost.is_empty() {
                state.log(&format!("lost: {lost}\n"));
            }
            lost.clone_into(&mut state.lost);
        }
    }

    /// Shows the counters of the whole capture, also in the log.
    pub(crate) fn end(&self, captured: u64, lost: &str) {
        self.show(captured, lost);
        let captured = counted_as(captured, "packets captured");
        self.log(format_args!("end: {captured}; lost: {lost}"));
    }

    /// Adds a line to the log.
    pub(crate) fn log(&self, line: impl Display) {
        self.state().log(&format!("{line}\n"));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reads what Wireshark has sent, and returns whether there was anything: it is ready, or the user has changed a
    /// field.
    fn has_input(&mut self) -> bool {
        let Some(input) = &mut self.input else {
            return false;
        };
        let (mut piece, mut has_any) = ([0; 512], false);
        while let Ok(1..) = input.read(&mut piece) {
            has_any = true;
        }
        has_any
    }

    /// Makes all values be sent again: Wireshark may have been busy with others.
    fn start_again(&mut self) {
        self.captured.clear();
        self.lost.clear();
        self.send(LOG, SET, &self.log);
    }

    /// Adds a line to the log.
    fn log(&mut self, line: &str) {
        self.send(LOG, ADD, line);
        self.log += line;
        while self.log.len() > LONGEST {
            let first = self.log.find('\n').unwrap_or(self.log.len() - 1);
            self.log.drain(..=first);
        }
    }

    /// Sends a message. Returns whether the pipe has taken it.
    fn send(&self, control: u8, command: u8, value: &str) -> bool {
        let mut end = value.len().min(LONGEST);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        let value = &value[..end];
        // It is below 2^24.
        let length = u32::try_from(value.len() + 2).unwrap_or(0);
        let [_, a, b, c] = length.to_be_bytes();
        let mut message = vec![SYNC, a, b, c, control, command];
        message.extend_from_slice(value.as_bytes());
        (&self.output).write_all(&message).is_ok()
    }
}
