//! Tests that never end: a suite says which one hangs and what it waits for, and ends it.
//!
//! Without this, a test that hangs takes all later ones of a run with it, and nobody learns its name.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_lab::patience;
use ringtap_lab::process::{descendants, kill};

/// How often the tests that run are looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// A test that took this long is named with its time.
const LONG: Duration = Duration::from_secs(10);
/// A test that has run this long is reported, once, with what it waits for.
const REPORT: Duration = Duration::from_secs(120);
/// A test that has run this long loses the programs that it has started, which ends most waits.
const KILL: Duration = Duration::from_secs(300);
/// One that hangs this much longer ends the whole suite.
const EXIT: Duration = Duration::from_secs(60);
/// The status with which libtest reports failed tests.
const FAILED: i32 = 101;

/// The tests of a suite that run now.
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
    /// Starts the thread that looks.
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
                eprintln!(
                    "hangs: {name}: ended after {} s\n{}",
                    age.as_secs(),
                    state()
                );
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

/// What this process's threads and its descendants do, a line each, and the machine's load.
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

/// A thread's name, state, processor time in ticks, system call, and where it waits in the kernel.
fn task_state(task: &Path) -> String {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let stat = read("stat");
    let fields: Vec<&str> = stat
        .rsplit_once(") ")
        .map_or_else(Vec::new, |(_, rest)| rest.split(' ').collect());
    let field = |at: usize| fields.get(at).copied().unwrap_or("?");
    let stack = read("stack");
    let stack: Vec<&str> = stack
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .take(6)
        .collect();
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
