//! `cargo xtask kernels`: the live suites on other kernels, booted in QEMU with the host's files visible.
//!
//! Fetches Debian's kernels as packages and extracts them, without installing. It boots a virtual machine for
//! each, whose root is the host's (read-only, with a layer in memory above), and runs the compiled test
//! programs in it as root. A table of passed, failed and skipped tests is printed and written to
//! `docs/explanation/kernels.md`. It does not measure: a machine without KVM is ten to twenty times slower.
//!
//! Results are kept in `target/kernels/NAME`. A suite that has results for the same test program is not run
//! again, so an interrupted run continues. `docs/report/kernels` has the last results of each suite. The
//! table is written from it whenever a kernel is done.

mod boot;
mod cross;
mod fetch;
mod machine;
mod modules;
mod outcome;
mod processor;
mod record;
mod report;
mod speed;
mod suites;
mod table;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use boot::Job;
pub(crate) use outcome::KernelOutcome;
use processor::{Processor, X86_64};
pub(crate) use report::lines;
use ringtap_testkit::need::find_tool;
use suites::{Program, Suite};
use table::{KERNELS, Kernel};

use crate::process::at;

/// The word for the tests that need no kernel, on another processor.
const CROSS: &str = "--aarch64";

/// The most boots of a kernel: a machine that stops takes one suite with it, and the others run in the next.
const BOOTS: usize = 4;

/// Runs `cargo xtask kernels`.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    if words == [CROSS] {
        return exit(run_cross());
    }
    exit(Request::parse(words).and_then(|request| carry_out(&request)))
}

fn exit(done: Result<bool, String>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("kernels: {reason}");
            ExitCode::from(2)
        }
    }
}

/// The kernel and the suites that `cargo xtask test` runs.
const TESTED: (&str, [&str; 4]) = ("6.1", ["packet", "tap", "stat", "hooks"]);

/// The result of the boot that belongs to `cargo xtask test`.
pub(crate) enum Tested {
    /// It could not be tried.
    Skipped(String),
    /// It was tried and something stopped it.
    Failed(String),
    /// Its suites ran.
    Ran(KernelOutcome),
}

/// The kernel that belongs to `cargo xtask test`, fetched, with its suites built.
pub(crate) struct Prepared {
    place: Place,
    kernel: &'static Kernel,
    fetched: fetch::Fetched,
    programs: Vec<Program>,
}

/// Fetches the kernel that belongs to `cargo xtask test` and builds its suites.
///
/// # Errors
/// The other outcome.
pub(crate) fn prepare() -> Result<Prepared, Tested> {
    if let Some(reason) = obstacle() {
        return Err(Tested::Skipped(reason));
    }
    let (name, suites) = TESTED;
    let request = Request {
        kernels: KERNELS.iter().filter(|one| one.name == name).collect(),
        suites: suites.map(str::to_owned).to_vec(),
        ..Request::default()
    };
    let place = Place::new();
    let Some(&kernel) = request.kernels.first() else {
        return Err(Tested::Failed(format!("no kernel {name} in the table")));
    };
    // An unreachable mirror is not an error of the code.
    let fetched = fetch::kernel(&place.packages, kernel).map_err(Tested::Skipped)?;
    let programs = suites::build(&request.wanted()).map_err(Tested::Failed)?;
    Ok(Prepared {
        place,
        kernel,
        fetched,
        programs,
    })
}

impl Prepared {
    /// Boots the kernel and runs its suites, on one of the host's processors.
    pub(crate) fn run(&self) -> Tested {
        let Self {
            place,
            kernel,
            fetched,
            programs,
        } = self;
        match run_one(place, kernel, fetched, programs, true) {
            Ok(mut outcome) => {
                // Results of other suites may be there from earlier runs.
                let suites = &mut outcome.suites;
                suites.retain(|suite| TESTED.1.contains(&suite.name));
                Tested::Ran(outcome)
            }
            Err(reason) => Tested::Failed(reason),
        }
    }
}

/// The work to do.
#[derive(Default)]
struct Request {
    kernels: Vec<&'static Kernel>,
    /// Suites by name; none for all.
    suites: Vec<String>,
    /// Whether to run suites again that have results.
    again: bool,
    /// Machines that run at once.
    jobs: usize,
    /// A script to run instead of the suites.
    script: Option<PathBuf>,
    /// Only write the results that are there.
    writes_only: bool,
    /// Measure the speed of the taps instead of running the suites.
    measures: bool,
}

impl Request {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut request = Self {
            // A machine keeps one of the host's processors busy most of the time, but not always.
            jobs: std::thread::available_parallelism().map_or(1, usize::from) * 3 / 2,
            ..Self::default()
        };
        for &word in words {
            if word == "--all" {
                request.kernels = KERNELS.iter().collect();
            } else if word == "--write" {
                request.writes_only = true;
            } else if word == "--speed" {
                request.measures = true;
            } else if word == "--again" {
                request.again = true;
            } else if let Some(jobs) = word.strip_prefix("--jobs=") {
                let jobs = jobs.parse().ok().filter(|&jobs| jobs > 0);
                request.jobs = jobs.ok_or_else(|| format!("{word}: no number; {}", usage()))?;
            } else if let Some(path) = word.strip_prefix("--run=") {
                let path = std::path::absolute(path).map_err(|error| format!("{word}: {error}"))?;
                request.script = Some(path);
            } else if let Some(names) = word.strip_prefix("--suites=") {
                request.suites = names.split(',').map(str::to_owned).collect();
            } else if let Some(kernel) = KERNELS.iter().find(|kernel| kernel.name == word) {
                request.kernels.push(kernel);
            } else {
                return Err(format!("no kernel {word:?}; {}", usage()));
            }
        }
        if request.kernels.is_empty() {
            return Err(usage());
        }
        let is_unknown = |name: &&String| !suites::SUITES.iter().any(|suite| suite.name == **name);
        match request.suites.iter().find(is_unknown) {
            Some(name) => Err(format!("no suite {name:?}; {}", usage())),
            None => Ok(request),
        }
    }

    /// Returns the suites that are wanted.
    fn wanted(&self) -> Vec<&'static Suite> {
        let is_wanted = |suite: &&Suite| {
            self.suites.is_empty() || self.suites.iter().any(|name| name == suite.name)
        };
        suites::SUITES.iter().filter(is_wanted).collect()
    }
}

fn usage() -> String {
    let kernels: Vec<_> = KERNELS.iter().map(|kernel| kernel.name).collect();
    let mut suites: Vec<_> = suites::SUITES.iter().map(|suite| suite.name).collect();
    suites.dedup();
    format!(
        "usage: cargo xtask kernels [--again] [--jobs=NUMBER] [--suites=NAME,… | --speed | --run=SCRIPT | --write] --all | NAME…\n       cargo xtask kernels {CROSS}\n  kernels: {}\n  suites: {}",
        kernels.join(" "),
        suites.join(" ")
    )
}

/// Where things are kept.
struct Place {
    /// Extracted packages, which several working copies share.
    packages: PathBuf,
    /// Results, a folder a kernel.
    results: PathBuf,
}

impl Place {
    fn new() -> Self {
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let target = ringtap_testkit::repository().join("target/kernels");
        let packages = cache
            .or(home)
            .map_or_else(|| target.join("packages"), |at| at.join("ringtap/kernels"));
        Self {
            packages,
            results: target,
        }
    }
}

/// Returns why no kernel can be booted here.
fn obstacle() -> Option<String> {
    let qemu = X86_64.qemu;
    let mut needed = [qemu, "apt-get", "dpkg-deb", "xz", "gzip"].into_iter();
    let missing = needed.find(|program| find_tool(program).is_none());
    if !cfg!(target_arch = "x86_64") {
        return Some("needs an x86-64 host".to_owned());
    }
    missing.map(|program| format!("needs {program} (Debian: qemu-system-x86, apt, dpkg, xz-utils)"))
}

/// Returns whether nothing failed.
fn carry_out(request: &Request) -> Result<bool, String> {
    if let Some(reason) = obstacle() {
        return Err(reason);
    }
    let place = Place::new();
    if request.writes_only {
        return write_results(&place, &request.kernels);
    }
    if let Some(script) = &request.script {
        for kernel in &request.kernels {
            print!("{}", run_script(&place, kernel, script)?);
        }
        return Ok(true);
    }
    if request.measures {
        return measure(&place, &request.kernels).map(|()| true);
    }
    let programs = build(&place, request)?;
    let queue = Mutex::new(by_work(&request.kernels));
    let work = Work {
        place: &place,
        programs: &programs,
        again: request.again,
        turn: Mutex::new(()),
    };
    let next = || held(&queue).pop_front();
    let worker = || {
        let kernels = std::iter::from_fn(next);
        kernels.filter(|kernel| !work.one(kernel)).count()
    };
    let failed: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..request.jobs).map(|_| scope.spawn(worker)).collect();
        let failed = workers.into_iter().map(|worker| worker.join().unwrap_or(1));
        failed.sum()
    });
    let kept = record::all(&ringtap_testkit::repository());
    println!("\n{}", report::table(&kept));
    Ok(failed == 0)
}

/// Returns kernels in the order in which they are begun: those with the most work first. A long one that is begun last
/// would run alone at the end.
fn by_work(kernels: &[&'static Kernel]) -> VecDeque<&'static Kernel> {
    let work = |kernel: &Kernel| -> Duration {
        let suites = suites::SUITES.iter();
        let suites = suites.filter(|suite| kernel.machine.runs(&suite.id()));
        suites.map(|suite| suite.limit).sum()
    };
    let mut kernels = kernels.to_vec();
    kernels.sort_by_key(|kernel| Reverse(work(kernel)));
    kernels.into()
}

/// Runs the tests that need no kernel as a program for AArch64, prints, keeps and writes their results.
/// Returns whether nothing failed.
fn run_cross() -> Result<bool, String> {
    let place = Place::new();
    let repository = ringtap_testkit::repository();
    let see = |outcomes: &[outcome::ProgramOutcome]| {
        if let Some(last) = outcomes.last() {
            print!("{}", report::program_lines(last));
        }
        record::keep_programs(&repository, outcomes)?;
        report::write(&repository, &record::all(&repository), outcomes)
    };
    let outcomes = cross::run(&place.packages, &place.results.join("aarch64"), see)?;
    Ok(outcomes.iter().all(|outcome| outcome.failed.is_empty()))
}

/// Keeps a kernel's results, and writes the table.
fn write_result(outcome: &KernelOutcome) -> Result<(), String> {
    let repository = ringtap_testkit::repository();
    record::keep(&repository, outcome)?;
    write_page(&repository)
}

/// Writes the page from all results that are kept.
fn write_page(repository: &Path) -> Result<(), String> {
    let (all, programs) = (record::all(repository), record::programs(repository));
    report::write(repository, &all, &programs)
}

/// Writes the results that are there, also of a run that was stopped. Returns whether nothing failed.
fn write_results(place: &Place, kernels: &[&Kernel]) -> Result<bool, String> {
    let mut all_passed = true;
    for kernel in kernels {
        let found = KernelOutcome::read(&place.results.join(kernel.name), kernel);
        if let Some(outcome) = found {
            write_result(&outcome)?;
            println!("\n== Linux {}", kernel.name);
            print!("{}", report::lines(&outcome));
            all_passed &= outcome.has_passed();
        }
    }
    Ok(all_passed)
}

/// Measures the speed of the taps on each kernel, and writes it.
fn measure(place: &Place, kernels: &[&Kernel]) -> Result<(), String> {
    let repository = ringtap_testkit::repository();
    speed::build(&repository)?;
    std::fs::create_dir_all(&place.results).map_err(at(&place.results))?;
    let script = place.results.join("speed.sh");
    std::fs::write(&script, speed::script(&repository)).map_err(at(&place.results))?;
    for kernel in kernels {
        let output = run_script(place, kernel, &script)?;
        let ratios = speed::ratios(&output).map_err(|error| format!("{}: {error}", kernel.name))?;
        speed::keep(&repository, kernel.name, &ratios)?;
        println!("{}: {} captures compared", kernel.name, ratios.len());
    }
    write_page(&repository)
}

/// Boots a kernel, runs a script as root, and returns its output.
fn run_script(place: &Place, kernel: &Kernel, script: &Path) -> Result<String, String> {
    let fetched = fetch::kernel(&place.packages, kernel)?;
    let results = place.results.join(kernel.name).join("run");
    std::fs::create_dir_all(&results).map_err(at(&results))?;
    outcome::clear(&results, &[])?;
    boot::run(kernel, &fetched, &results, Job::Script(script))?;
    let output = std::fs::read(results.join(boot::OUTPUT)).map_err(at(&results))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The suites' programs for each kind of processor.
#[derive(Default)]
struct Programs {
    host: Vec<Program>,
    foreign: Vec<Program>,
}

impl Programs {
    fn of(&self, kernel: &Kernel) -> &[Program] {
        match kernel.machine.processor.is_host {
            true => &self.host,
            false => &self.foreign,
        }
    }
}

/// Builds the suites for the processors that the wanted kernels run on.
fn build(place: &Place, request: &Request) -> Result<Programs, String> {
    let (host, foreign): (Vec<&Kernel>, Vec<&Kernel>) = request
        .kernels
        .iter()
        .partition(|kernel| kernel.machine.processor.is_host);
    let mut programs = Programs::default();
    if !host.is_empty() {
        programs.host = suites::build(&request.wanted())?;
    }
    if let Some(first) = foreign.first() {
        let Processor { qemu, package, .. } = first.machine.processor;
        if find_tool(qemu).is_none() {
            return Err(format!("needs {qemu} (Debian: {package})"));
        }
        let is_run = |suite: &Suite| foreign.iter().any(|one| one.machine.runs(&suite.id()));
        let mut wanted = request.wanted();
        wanted.retain(|suite| is_run(suite));
        programs.foreign = cross::suites(&place.packages, &wanted)?;
    }
    Ok(programs)
}

/// Takes a lock, also after a thread that held it has failed.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that the threads share, each of which boots a kernel.
struct Work<'a> {
    place: &'a Place,
    programs: &'a Programs,
    again: bool,
    /// Held by the thread that fetches, prints or writes results.
    turn: Mutex<()>,
}

impl Work<'_> {
    /// Fetches a kernel, boots it, prints and writes its results. Returns whether nothing failed.
    fn one(&self, kernel: &'static Kernel) -> bool {
        let fetched = {
            let _turn = held(&self.turn);
            fetch::kernel(&self.place.packages, kernel)
        };
        let programs = self.programs.of(kernel);
        let outcome =
            fetched.and_then(|fetched| run_one(self.place, kernel, &fetched, programs, self.again));
        let _turn = held(&self.turn);
        println!("\n== Linux {} ({})", kernel.name, kernel.suite);
        let written = outcome.and_then(|outcome| {
            print!("{}", report::lines(&outcome));
            write_result(&outcome)?;
            Ok(outcome.has_passed())
        });
        written.unwrap_or_else(|reason| {
            println!("failed: {reason}");
            false
        })
    }
}

/// Boots a kernel with those of the programs that have no result yet, once more if the machine stops.
fn run_one(
    place: &Place,
    kernel: &Kernel,
    fetched: &fetch::Fetched,
    programs: &[Program],
    again: bool,
) -> Result<KernelOutcome, String> {
    let results = place.results.join(kernel.name);
    std::fs::create_dir_all(&results).map_err(at(&results))?;
    let mut pending: Vec<&Program> = programs
        .iter()
        .filter(|program| kernel.machine.runs(&program.suite.id()))
        .filter(|program| again || !outcome::is_done(&results, program))
        .collect();
    for _ in 0..BOOTS {
        if pending.is_empty() {
            break;
        }
        outcome::clear(&results, &pending)?;
        boot::run(kernel, fetched, &results, Job::Suites(&pending))?;
        if !outcome::mark_stopped(&results, &pending)? {
            break;
        }
        pending.retain(|program| !outcome::is_done(&results, program));
    }
    KernelOutcome::read(&results, kernel)
        .ok_or_else(|| format!("{}: no results", results.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_kernels_and_suites() {
        let request =
            Request::parse(&["6.1", "--suites=tap,stat"]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(request.kernels.len(), 1);
        assert_eq!(request.suites, ["tap", "stat"]);
        assert!(!request.again);
        let all =
            Request::parse(&["--all", "--again", "--jobs=3"]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(all.kernels.len(), KERNELS.len());
        assert!(all.again && all.jobs == 3);
        for words in [
            &["2.6"][..],
            &[],
            &["6.1", "--suites=none"],
            &["6.1", "--jobs=0"],
        ] {
            assert!(Request::parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn kernels_with_most_work_are_begun_first() {
        let names = |kernels: VecDeque<&Kernel>| -> Vec<&str> {
            kernels.into_iter().map(|kernel| kernel.name).collect()
        };
        let all: Vec<_> = KERNELS.iter().collect();
        let order = names(by_work(&all));
        assert_eq!(order.len(), KERNELS.len());
        assert_eq!(order[..4], ["5.10", "6.1", "6.12", "7.3"]);
    }

    #[test]
    fn what_the_test_command_boots_is_in_the_tables() {
        let (name, suites) = TESTED;
        let words = [name.to_owned(), format!("--suites={}", suites.join(","))];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(Request::parse(&words).is_ok());
    }
}
