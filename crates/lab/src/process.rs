//! Programs under test: started, watched through `/proc`, interrupted, and waited for with a limit.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringtap_sys::bpf::TcxSide;

use crate::netns::Side;

/// How often `/proc` is read while waiting.
const INTERVAL: Duration = Duration::from_millis(2);
/// How often, and how many times in a row, a program must be found asleep to count as waiting for
/// packets.
const REST: Duration = Duration::from_millis(20);
const RESTS: u32 = 6;
/// The number of bytes read of an output at once.
const PIECE: usize = 1 << 16;

/// A running program whose output is collected while it runs; it is killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<Collector>,
    stderr: Option<Collector>,
}

/// Collects the output of a program while it runs.
#[derive(Debug)]
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Starts a program. Its standard output and error are collected unless the command redirects
    /// them.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self::watch(command.spawn()?))
    }

    /// Takes over a program that was started elsewhere, with those of its outputs that are still
    /// open.
    #[must_use]
    pub fn watch(mut child: Child) -> Self {
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Starts a program without standard input, with both outputs collected.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn start_piped(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null());
        Self::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether it has ended.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Sends a signal by name, such as `INT`, like `kill -INT`.
    ///
    /// # Errors
    /// Returns an error if it cannot be sent.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        // The shell's own kill: not every system has a program of that name.
        let script = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &script]).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{script}: {status}")))
        }
    }

    /// Waits for the program's end.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::TimedOut`] if it runs longer than `limit`; it is then killed.
    pub fn wait(mut self, limit: Duration) -> io::Result<Output> {
        let deadline = Instant::now() + crate::patience(limit);
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                self.end();
                let stderr = taken(&mut self.stderr)?;
                let text = format!("still running: {}", String::from_utf8_lossy(&stderr));
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            thread::sleep(crate::patience(INTERVAL));
        };
        self.output(status)
    }

    /// Kills it and all programs that it has started, which would hold its outputs open.
    fn end(&mut self) {
        let others = descendants(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
        kill(&others);
    }

    fn output(&mut self, status: ExitStatus) -> io::Result<Output> {
        Ok(Output {
            status,
            stdout: taken(&mut self.stdout)?,
            stderr: taken(&mut self.stderr)?,
        })
    }

    /// Waits until the program captures on the device of `side`. Either an AF_PACKET socket is
    /// bound to it and runs (`/proc/net/packet`), or the program is attached to the interface's tcx
    /// or XDP hook and has its signal handlers.
    ///
    /// # Errors
    /// Returns an error if the program ends first, or does not capture within `limit`.
    pub fn wait_until_capturing(&mut self, side: &Side, limit: Duration) -> io::Result<()> {
        let index = side.namespace.netlink().index(&side.device);
        let index = index.map_err(io::Error::other)?;
        self.wait_for_socket(side, index, limit)
    }

    /// Waits like [`wait_until_capturing`](Self::wait_until_capturing) for a capture on all
    /// interfaces of the side's namespace.
    ///
    /// # Errors
    /// The same as for [`wait_until_capturing`](Self::wait_until_capturing).
    pub fn wait_until_capturing_any(&mut self, side: &Side, limit: Duration) -> io::Result<()> {
        self.wait_for_socket(side, 0, limit)
    }

    fn wait_for_socket(&mut self, side: &Side, index: u32, limit: Duration) -> io::Result<()> {
        let deadline = Instant::now() + crate::patience(limit);
        loop {
            let id = ringtap_of(self.child.id());
            // A process that has ended has no files; its end is reported below.
            let is_open = || catches_interrupts(id);
            let has_socket = has_packet_socket(side, index)? && (!is_ringtap(id) || is_open());
            let has_program = || holds_program(id, index) || has_filter(side, id, index);
            if has_socket || (has_program() && is_open()) {
                return Ok(());
            }
            if self.child.try_wait()?.is_some() {
                let stderr = taken(&mut self.stderr)?;
                let text = String::from_utf8_lossy(&stderr).into_owned();
                return Err(io::Error::other(format!(
                    "ended before it captured: {text}"
                )));
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "does not capture"));
            }
            thread::sleep(crate::patience(INTERVAL));
        }
    }

    /// Waits until the program has written a text to standard error, which is collected.
    ///
    /// # Errors
    /// Returns an error if the program ends first, or does not write it within `limit`.
    pub fn wait_until_told(&mut self, text: &str, limit: Duration) -> io::Result<()> {
        let deadline = Instant::now() + crate::patience(limit);
        loop {
            // This is checked before the text, so that the text includes everything written before
            // the end.
            let has_ended = self.has_ended();
            let told = self.said();
            if told.contains(text) {
                return Ok(());
            }
            if has_ended {
                let reason = format!("ended before it printed \"{text}\": {told}");
                return Err(io::Error::other(reason));
            }
            if Instant::now() > deadline {
                let reason = format!("does not print \"{text}\": {told}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            thread::sleep(crate::patience(INTERVAL));
        }
    }

    /// Returns everything that the program has written to standard error so far, which is collected.
    #[must_use]
    pub fn said(&self) -> String {
        self.stderr.as_ref().map_or_else(String::new, |collector| {
            String::from_utf8_lossy(&held(&collector.bytes)).into_owned()
        })
    }

    /// Waits until the program is idle: at several looks in a row, none of its threads or its
    /// children's threads is on a processor or waits for one. Its work at the start, such as
    /// setting a filter, is then done, however slow the machine is. A program that has ended counts
    /// as idle.
    ///
    /// # Errors
    /// Returns an error if it is not idle within `limit`.
    pub fn wait_until_resting(&mut self, limit: Duration) -> io::Result<()> {
        let deadline = Instant::now() + crate::patience(limit);
        let mut looks = 0;
        while looks < RESTS && !self.has_ended() {
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "does not rest"));
            }
            thread::sleep(REST);
            looks = if rests(self.child.id()) { looks + 1 } else { 0 };
        }
        Ok(())
    }

    /// Returns the peak resident memory of the running process, in bytes (`VmHWM`).
    #[must_use]
    pub fn peak_memory(&self) -> Option<u64> {
        peak_memory(self.child.id())
    }
}

/// Returns the peak resident memory of a running process, in bytes (`VmHWM`, proc(5)).
#[must_use]
pub fn peak_memory(id: u32) -> Option<u64> {
    let peak = status_field(id, "VmHWM:")?;
    let kilobytes: u64 = peak.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns the field of that name, with its colon, of a process or thread (`/proc/ID/status`, proc(5)).
#[must_use]
pub fn status_field(id: impl Display, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// Returns the time that a thread has spent on a processor: the first field of `schedstat` in its folder of `/proc`, in
/// nanoseconds (Documentation/scheduler/sched-stats.rst).
///
/// # Errors
/// Returns an error if the thread has ended, or the kernel has no such file.
pub fn processor_time(thread: &Path) -> io::Result<Duration> {
    let text = std::fs::read_to_string(thread.join("schedstat"))?;
    let field = text.split(' ').next().and_then(|field| field.parse().ok());
    let nanos = field.ok_or_else(|| io::Error::other("no schedstat"))?;
    Ok(Duration::from_nanos(nanos))
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.end();
        }
    }
}

fn collect(mut from: impl io::Read + Send + 'static) -> Collector {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let collected = Arc::clone(&bytes);
    let thread = thread::spawn(move || {
        let mut piece = [0; PIECE];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => held(&collected).extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    });
    Collector { bytes, thread }
}

fn taken(collector: &mut Option<Collector>) -> io::Result<Vec<u8>> {
    let Some(Collector { bytes, thread }) = collector.take() else {
        return Ok(Vec::new());
    };
    let ended = thread.join();
    ended.map_err(|_| io::Error::other("the collector panicked"))??;
    Ok(std::mem::take(&mut held(&bytes)))
}

fn held(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether all threads of a process, and of its children, sleep. A process that has ended counts as
/// asleep.
fn rests(id: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{id}/task")) else {
        return true;
    };
    tasks.flatten().all(|task| {
        // The state is the first field behind the name, which is in parentheses.
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map(|(_, rest)| rest);
        let state = rest.and_then(|rest| rest.chars().next());
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let mut children = children.split_whitespace().flat_map(str::parse);
        matches!(state, None | Some('S' | 'Z')) && children.all(rests)
    })
}

/// Returns whether the process has a handler for SIGINT, which a capture installs once it is open.
fn catches_interrupts(id: u32) -> bool {
    const INTERRUPT: u64 = 1 << 1;
    let caught = status_field(id, "SigCgt:");
    let caught = caught.and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    caught.is_some_and(|mask| mask & INTERRUPT != 0)
}

/// Returns whether the process is `ringtap`. Its packet socket rejects everything from its binding until the
/// whole capture is set up.
fn is_ringtap(id: u32) -> bool {
    std::fs::read(format!("/proc/{id}/comm")).is_ok_and(|name| name == b"ringtap\n")
}

/// Returns the `ringtap` process that a shell or another program has started, or the process
/// itself.
fn ringtap_of(id: u32) -> u32 {
    if is_ringtap(id) {
        return id;
    }
    let mut others = descendants(id).into_iter();
    others.find(|&id| is_ringtap(id)).unwrap_or(id)
}

/// Returns whether the process is attached to the interface, at tcx or XDP, like a tap or an AF_XDP socket:
/// `/proc/PID/fdinfo` names the interface of such a link (Linux ≥ 5.9).
fn holds_program(id: u32, index: u32) -> bool {
    let wanted = index.to_string();
    let entries = std::fs::read_dir(format!("/proc/{id}/fdinfo"));
    let entries = entries.into_iter().flatten().flatten();
    // A descriptor may be closed in the meantime.
    let mut texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    texts.any(|text| {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let field = |name: &str| field(name).map(str::trim);
        matches!(field("link_type:"), Some("xdp" | "tcx")) && field("ifindex:") == Some(&wanted)
    })
}

/// Returns whether a filter of the process is at clsact, where taps are before Linux 6.6; its name contains
/// the process id.
fn has_filter(side: &Side, id: u32, index: u32) -> bool {
    let name = format!("ringtap:{id}:");
    let mut netlink = side.namespace.netlink();
    [TcxSide::Ingress, TcxSide::Egress].into_iter().any(|at| {
        let filters = netlink.bpf_filters(index, at).unwrap_or_default();
        filters.iter().any(|filter| filter.name.starts_with(&name))
    })
}

/// Returns whether `/proc/net/packet` of the side's namespace lists a running socket on the interface. The
/// columns are address, references, type, protocol, interface index, running, …
fn has_packet_socket(side: &Side, index: u32) -> io::Result<bool> {
    let table = side.run(|| std::fs::read_to_string("/proc/thread-self/net/packet"))?;
    Ok(table.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace().skip(4);
        let interface = columns.next().and_then(|column| column.parse::<u32>().ok());
        interface == Some(index) && columns.next() == Some("1")
    }))
}

/// Returns the descendants of a process, as far as their parents are alive.
#[must_use]
pub fn descendants(of: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|id: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
            Some((id, parent.parse().ok()?))
        })
        .collect();
    let mut found = vec![of];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        for &(id, its_parent) in &processes {
            if its_parent == parent && !found.contains(&id) {
                found.push(id);
            }
        }
        at += 1;
    }
    found.split_off(1)
}

/// Kills processes. One that has ended in the meantime needs no signal.
pub fn kill(processes: &[u32]) {
    let ids: Vec<String> = processes.iter().map(u32::to_string).collect();
    if !ids.is_empty() {
        let script = format!("kill -KILL {}", ids.join(" "));
        let _ = Command::new("sh").args(["-c", &script]).status();
    }
}

/// Runs this program again with a variable, and checks that it succeeds.
///
/// # Panics
/// Panics with its standard error if it fails.
pub fn run_again(variable: &str, value: &str) {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program).env(variable, value).output();
    let output = output.expect("this program again");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_a_test_are_found_and_ended() {
        let mut shell = Command::new("sh");
        let mut child = shell
            .args(["-c", "sleep 1000 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("sh: {error}"));
        let mut line = [0];
        let outputs = child
            .stdout
            .as_mut()
            .map(|pipe| std::io::Read::read(pipe, &mut line));
        assert!(matches!(outputs, Some(Ok(1))));
        let found = descendants(child.id());
        assert!(!found.is_empty(), "the sleeper");
        kill(&found);
        let status = child.wait().unwrap_or_else(|error| panic!("{error}"));
        assert!(
            status.success(),
            "the shell waited for the sleeper: {status}"
        );
    }

    #[test]
    fn a_limit_ends_also_what_a_shell_has_started() {
        let mut shell = Command::new("sh");
        let command = shell.args(["-c", "echo begun; sleep 1000; echo never"]);
        let running = Running::start_piped(command).unwrap_or_else(|error| panic!("{error}"));
        let ended = running.wait(Duration::from_millis(200));
        assert!(ended.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
    }
}
