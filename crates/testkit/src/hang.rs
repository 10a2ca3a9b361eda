//! Watches for tests that never end: the suite reports which one hangs and what it waits for, and
//! ends it.
//!
//! Without this, a test that hangs blocks all later ones of a run, and its name is never reported.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_lab::patience;
use ringtap_lab::process::{descendants, kill};

/// How often the running tests are checked.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time after which a finished test is listed with its duration.
const LONG: Duration = Duration::from_secs(10);
/// The time after which a running test is reported, once, with what it waits for.
const REPORT: Duration = Duration::from_secs(120);
/// The time after which the programs that a running test has started are killed, which ends most
/// waits.
const KILL: Duration = Duration::from_secs(300);
/// The further time after which the whole suite is ended.
const EXIT: Duration = Duration::from_secs(60);
/// The exit status with which libtest reports failed tests.
const FAILED: i32 = 101;

/// The running tests of a suite.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    suite: Arc<str>,
    running: Arc<Mutex<Vec<Running>>>,
}

struct Running {
    name: String,
    since: Instant,
    is_reported: bool,
    is_killed: bool,
}

impl Watch {
    /// Starts the thread that watches.
    pub(crate) fn start(suite: &str) -> Self {
        let watch = Self {
            suite: suite.into(),
            ..Self::default()
        };
        let looked_at = watch.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(INTERVAL);
                looked_at.look();
            }
        });
        watch
    }

    /// Runs a test's body under its name.
    pub(crate) fn during<T>(&self, name: &str, body: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let _entry = Entry::new(self, name);
        let result = body();
        let took = begun.elapsed();
        if took >= LONG {
            eprintln!("took {} s: {}::{name}", took.as_secs(), self.suite);
        }
        result
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        for test in self.running().iter_mut() {
            let age = test.since.elapsed();
            let name = format!("{}::{}", self.suite, test.name);
            if age > REPORT && !test.is_reported {
                test.is_reported = true;
                eprintln!("slow: {name}: runs for {} s\n{}", age.as_secs(), state());
            }
            if age > patience(KILL) && !test.is_killed {
                test.is_killed = true;
                let (seconds, state) = (age.as_secs(), state());
                eprintln!("hangs: {name}: ended after {seconds} s\n{state}");
                kill(&descendants(std::process::id()));
            }
            if age > patience(KILL) + EXIT {
                eprintln!("hangs: {name}: the suite ends\n{}", state());
                std::process::exit(FAILED);
            }
        }
    }
}

/// A test in the list, until its body has returned or panicked.
struct Entry<'a> {
    watch: &'a Watch,
    name: &'a str,
}

impl<'a> Entry<'a> {
    fn new(watch: &'a Watch, name: &'a str) -> Self {
        watch.running().push(Running {
            name: name.to_owned(),
            since: Instant::now(),
            is_reported: false,
            is_killed: false,
        });
        Self { watch, name }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.watch.running().retain(|test| test.name != self.name);
    }
}

/// Describes the threads of this process and its descendants, a line each, and the machine's load.
fn state() -> String {
    let mut text = String::new();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let _ = writeln!(text, "  load {}", load.trim());
    let own = std::process::id();
    let processes = std::iter::once(own).chain(descendants(own));
    for id in processes {
        let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let _ = writeln!(text, "  process {id}: {}", command.trim());
        let tasks = fs::read_dir(format!("/proc/{id}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let _ = writeln!(text, "    {}", task_state(&task.path()));
        }
    }
    text
}

/// Returns a thread's name, state, processor time in ticks, system call, and where it waits in the
/// kernel.
fn task_state(task: &Path) -> String {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let stat = read("stat");
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' '));
    let fields: Vec<&str> = fields.into_iter().flatten().collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or("?");
    let stack = read("stack");
    let stack = stack
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    let stack: Vec<&str> = stack.take(6).collect();
    format!(
        "{}: {}, user {} system {}, call {}, in {}",
        read("comm").trim(),
        field(0),
        field(11),
        field(12),
        read("syscall").split(' ').next().unwrap_or_default().trim(),
        stack.join(" < "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_is_listed() {
        let watch = Watch::default();
        let inside = watch.during("one", || watch.running().len());
        assert_eq!((inside, watch.running().len()), (1, 0));
    }
}
