//! A run of ssh: its start, the copy of the packets, and its end.
//!
//! The end of ssh's standard input ends the capture on the other machine, which then sends what it still has. This is
//! how a signal, a reader that closes the pipe, and a crash of this program end it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_sys::poll::{self, Interest};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::script::{self, MISSING, OTHER_MACHINE, Program};
use super::{RemoteError, Target, Words};
use crate::losses::ReadCounters;
use crate::notice::raw;
use crate::setup::lock;
use crate::toolbar::{self, Toolbar};

/// How long ssh may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for the last lines of standard error after ssh has ended.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How often the end of ssh is looked for.
const INTERVAL: Duration = Duration::from_millis(10);
/// The number of bytes that are copied at once.
const PIECE: usize = 1 << 16;
/// How much is shown of an output that is no capture, in bytes.
const SHOWN: usize = 80;
/// How much of standard error is kept, in bytes.
const KEPT: usize = 1 << 16;
/// The beginning of a pcapng file (draft-ietf-opsawg-pcapng, section 4.1).
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The file of the running program.
const OWN: &str = "/proc/self/exe";

/// Captures on the target, with the packets going to a pipe.
///
/// # Errors
/// The pipe cannot be opened or written, or ssh or ringtap there fails.
pub(crate) fn capture(
    target: &Target,
    words: &Words,
    fifo: &Path,
    toolbar: Option<&Toolbar>,
) -> Result<(), RemoteError> {
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(fifo);
    let failed = |source| RemoteError::Fifo {
        path: fifo.to_owned(),
        source,
    };
    let mut run = Run {
        target,
        fifo: opened.map_err(failed)?,
        path: fifo,
        toolbar,
        ssh: Arc::default(),
    };
    run.ssh.watch_signals().map_err(|source| RemoteError::Run {
        program: "the thread for signals",
        source,
    })?;
    let installed = Program::Installed(&target.program);
    match run.once(&target.script(words, installed), None) {
        Err(RemoteError::Missing { .. }) if target.is_copied => run.copied(words),
        ended => ended,
    }
}

struct Run<'a> {
    target: &'a Target,
    fifo: File,
    path: &'a Path,
    toolbar: Option<&'a Toolbar>,
    ssh: Arc<Ssh>,
}

/// How the copy of the packets ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// There are no more.
    Sender,
    /// Nobody reads the pipe any more.
    Reader,
}

impl Run<'_> {
    /// Captures with a copy of this program.
    fn copied(&mut self, words: &Words) -> Result<(), RemoteError> {
        let own = File::open(OWN).map_err(RemoteError::Own)?;
        let bytes = own.metadata().map_err(RemoteError::Own)?.len();
        let machine = machine()?;
        let machine = machine.trim();
        let program = Program::Copied { bytes, machine };
        let script = self.target.script(words, program);
        match self.once(&script, Some(&own)) {
            Err(RemoteError::Machine { host, other, .. }) => Err(RemoteError::Machine {
                host,
                own: machine.to_owned(),
                other,
            }),
            ended => ended,
        }
    }

    /// Runs ssh once, with a script and a file behind it.
    fn once(&mut self, script: &str, file: Option<&File>) -> Result<(), RemoteError> {
        if self.ssh.is_ended() {
            return Ok(());
        }
        let (mut packets, told) = self.start(script.len())?;
        self.ssh.send(script, file).map_err(RemoteError::Own)?;
        let end = self.pass_on(&mut packets);
        if end.as_ref().is_ok_and(|end| *end == End::Sender) {
            self.ssh.close();
        } else {
            self.ssh.end();
        }
        // ssh must not wait for somebody to take its packets.
        drop(packets);
        let status = self.ssh.wait()?;
        let (told, counters) = told.all();
        if let (Some(toolbar), Some(counters)) = (self.toolbar, counters) {
            toolbar.end(counters.captured, &counters.lost());
        }
        end?;
        self.outcome(status, &told)
    }

    fn start(&self, script: usize) -> Result<(ChildStdout, Told), RemoteError> {
        let failed = |source| RemoteError::Run {
            program: "ssh",
            source,
        };
        let mut command = self.target.ssh(&script::starter(script));
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal of the terminal reaches this process, which ends the capture in order.
            .process_group(0);
        let mut child = piped.spawn().map_err(failed)?;
        let missing = || failed(io::ErrorKind::BrokenPipe.into());
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(packets), Some(errors)) = pipes else {
            return Err(missing());
        };
        self.ssh.begin(child, input);
        let told = Told::collect(errors, self.toolbar.cloned()).map_err(failed)?;
        Ok((packets, told))
    }

    /// Copies packets until one side closes.
    fn pass_on(&mut self, packets: &mut ChildStdout) -> Result<End, RemoteError> {
        let failed = |source| RemoteError::Fifo {
            path: self.path.to_owned(),
            source,
        };
        let (mut piece, mut first) = (vec![0; PIECE], Vec::new());
        loop {
            let interests = [
                Interest::read(packets.as_fd()),
                // A pipe without a reader reports it, whatever is waited for.
                Interest::change(self.fifo.as_fd()),
            ];
            let ready = poll::wait(interests, self.toolbar.map(|_| toolbar::INTERVAL));
            let [from, to] = ready.map_err(|error| failed(io::Error::other(error)))?;
            if to.failed {
                return Ok(End::Reader);
            }
            if self.toolbar.is_some_and(Toolbar::is_due) {
                self.ssh.ask_for_counters();
            }
            if !from.readable && !from.failed {
                continue;
            }
            let length = match packets.read(&mut piece) {
                Ok(0) => return Ok(End::Sender),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            if first.len() < PCAPNG.len() {
                first.extend(piece[..length].iter().take(PCAPNG.len() - first.len()));
                if !PCAPNG.starts_with(&first) {
                    return Err(self.no_capture(&piece[..length]));
                }
            }
            match self.fifo.write_all(&piece[..length]) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(End::Reader),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Returns the error for an output that is not that of ringtap.
    fn no_capture(&self, output: &[u8]) -> RemoteError {
        let text = String::from_utf8_lossy(&output[..output.len().min(SHOWN)]);
        RemoteError::NoCapture {
            host: self.target.host.clone(),
            text: text.lines().next().unwrap_or_default().to_owned(),
        }
    }

    /// Returns the result of a run by its exit status.
    fn outcome(&self, status: ExitStatus, told: &str) -> Result<(), RemoteError> {
        if status.success() {
            raw(told);
        }
        if status.success() || self.ssh.is_ended() {
            return Ok(());
        }
        let host = self.target.host.clone();
        Err(match status.code() {
            Some(MISSING) => RemoteError::Missing {
                host,
                program: self.target.program.clone(),
            },
            Some(OTHER_MACHINE) => RemoteError::Machine {
                host,
                own: String::new(),
                other: told.trim().to_owned(),
            },
            _ => RemoteError::Failed {
                host,
                reason: reason(told).unwrap_or_else(|| format!("ssh ended: {status}")),
            },
        })
    }
}

/// Returns the type of this machine.
fn machine() -> Result<String, RemoteError> {
    let output = Command::new("uname").arg("-m").output();
    let output = output.map_err(|source| RemoteError::Run {
        program: "uname",
        source,
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the line of standard error that says why the run failed: ringtap's last one, a usage error, or the last
/// one of another program.
fn reason(told: &str) -> Option<String> {
    let lines = || told.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = lines()
        .filter_map(|line| line.strip_prefix("ringtap: "))
        .next_back();
    let usage = || lines().find_map(|line| line.strip_prefix("error: "));
    let reason = own.or_else(usage).or_else(|| lines().next_back());
    reason.map(str::to_owned)
}

/// The running ssh, which the thread for signals can end.
#[derive(Debug, Default)]
struct Ssh {
    is_ended: AtomicBool,
    child: Mutex<Option<Child>>,
    input: Mutex<Option<ChildStdin>>,
}

impl Ssh {
    fn begin(&self, child: Child, input: ChildStdin) {
        *lock(&self.input) = Some(input);
        *lock(&self.child) = Some(child);
    }

    /// Sends the script and the file. If ssh does not take all of it, its exit status and messages say why.
    ///
    /// # Errors
    /// The file cannot be read.
    fn send(&self, script: &str, mut file: Option<&File>) -> io::Result<()> {
        let mut input = lock(&self.input);
        let Some(input) = &mut *input else {
            return Ok(());
        };
        if input.write_all(script.as_bytes()).is_err() {
            return Ok(());
        }
        let mut piece = vec![0; PIECE];
        while let Some(file) = &mut file {
            let length = file.read(&mut piece)?;
            if length == 0 || input.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Requests the counters so far.
    fn ask_for_counters(&self) {
        // Only the end of the capture uses the input, too.
        if let Ok(mut input) = self.input.try_lock()
            && let Some(input) = &mut *input
        {
            // If ssh has ended, its exit status says so.
            let _ = input.write_all(b"\n");
        }
    }

    /// Closes the standard input of ssh, which ends the capture.
    fn close(&self) {
        *lock(&self.input) = None;
    }

    /// Requests the end.
    fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        match self.input.try_lock() {
            Ok(mut input) => *input = None,
            // ringtap is being sent: there is nothing to end in order.
            Err(_) => self.kill(),
        }
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    fn kill(&self) {
        if let Some(child) = &mut *lock(&self.child) {
            // It may have ended.
            let _ = child.kill();
        }
    }

    /// Waits for the end of ssh. If the end was requested, ssh is killed when it takes too long.
    fn wait(&self) -> Result<ExitStatus, RemoteError> {
        let begun = Instant::now();
        loop {
            if let Some(child) = &mut *lock(&self.child) {
                let ended = child.try_wait();
                let ended = ended.map_err(|source| RemoteError::Run {
                    program: "ssh",
                    source,
                })?;
                if let Some(status) = ended {
                    return Ok(status);
                }
            }
            if self.is_ended() && begun.elapsed() > GRACE {
                self.kill();
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Ends the capture at the first signal that requests it, and the program if that takes too long.
    fn watch_signals(self: &Arc<Self>) -> io::Result<()> {
        let hangup = (!ringtap_sys::signals::is_ignored(SIGHUP)).then_some(SIGHUP);
        let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup))?;
        let ssh = Arc::clone(self);
        let thread = thread::Builder::new().name("signals".into());
        thread.spawn(move || {
            if signals.forever().next().is_some() {
                ssh.end();
                thread::sleep(GRACE);
                ssh.kill();
                // The pipe's reader may not read.
                std::process::exit(1);
            }
        })?;
        Ok(())
    }
}

/// The standard error of ssh, collected while it runs.
struct Told {
    kept: Arc<Mutex<Kept>>,
    ended: Receiver<()>,
}

/// The lines of standard error.
#[derive(Default)]
struct Kept {
    text: String,
    /// The last counters, if there is a toolbar.
    counters: Option<ReadCounters>,
}

impl Told {
    fn collect(mut errors: ChildStderr, toolbar: Option<Toolbar>) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let collected = Arc::clone(&kept);
        let (end, ended) = channel();
        let thread = thread::Builder::new().name("errors".into());
        thread.spawn(move || {
            let (mut piece, mut line) = ([0; 4096], Vec::new());
            while let Ok(length @ 1..) = errors.read(&mut piece) {
                for part in piece[..length].split_inclusive(|byte| *byte == b'\n') {
                    line.extend_from_slice(part);
                    if part.ends_with(b"\n") || line.len() > KEPT {
                        lock(&collected).take(&line, toolbar.as_ref());
                        line.clear();
                    }
                }
            }
            lock(&collected).take(&line, toolbar.as_ref());
            // Nobody may wait for it.
            let _ = end.send(());
        })?;
        Ok(Self { kept, ended })
    }

    /// Returns what was written, and the last counters.
    fn all(self) -> (String, Option<ReadCounters>) {
        // A process that a proxy has left behind may hold the pipe open.
        let _ = self.ended.recv_timeout(LAST_LINES);
        let kept = std::mem::take(&mut *lock(&self.kept));
        (kept.text, kept.counters)
    }
}

impl Kept {
    /// Takes a line, without control characters: the other machine must not control a terminal here.
    fn take(&mut self, line: &[u8], toolbar: Option<&Toolbar>) {
        let line = String::from_utf8_lossy(line);
        let line: String = line
            .trim_end()
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if line.is_empty() {
            return;
        }
        if let Some(toolbar) = toolbar {
            if let Ok(counters) = serde_json::from_str::<ReadCounters>(&line) {
                toolbar.show(counters.captured, &counters.lost());
                self.counters = Some(counters);
                return;
            }
            toolbar.log(&line);
        }
        if self.text.len() > KEPT {
            self.text.clear();
        }
        self.text += &line;
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_why_it_failed() {
        for (told, expected) in [
            (
                "ringtap: capturing on x\nringtap: x: it is gone\n",
                "x: it is gone",
            ),
            (
                "error: unexpected argument '--x' found\n\nUsage: x\n",
                "unexpected argument '--x' found",
            ),
            (
                "sudo: a password is required\n",
                "sudo: a password is required",
            ),
            (
                "a banner\n\nPermission denied (publickey).\r\n",
                "Permission denied (publickey).",
            ),
        ] {
            assert_eq!(reason(told).as_deref(), Some(expected));
        }
        assert_eq!(reason("\n"), None);
    }
}
