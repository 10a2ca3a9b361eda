//! The machine and the time of a measurement.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

/// The description of the machine, stored with every measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// UTC, to the second.
    pub time: String,
    /// ringtap's version, with the commit if the caller sets `RINGTAP_COMMIT`.
    pub ringtap: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// Processors that the program may use.
    pub cpus: usize,
    /// Memory in GiB, rounded up.
    pub memory_gib: u64,
    /// The kind of wire that packets travel over.
    pub wire: String,
}

impl Machine {
    /// Returns this machine, now, with the version of the ringtap that is measured.
    #[must_use]
    pub fn here(ringtap: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
        let version = first_line(&ringtap.to_string_lossy(), &["--version"]);
        let version = version.strip_prefix("ringtap ").unwrap_or("unknown");
        Self {
            time: first_line("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
            ringtap: match std::env::var("RINGTAP_COMMIT") {
                Ok(commit) => format!("{version} ({commit})"),
                Err(_) => version.to_owned(),
            },
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: value(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_gib: kilobytes.div_ceil(1 << 20),
            wire: "veth pairs between network namespaces".to_owned(),
        }
    }

    /// Returns all fields except the time, in a line.
    #[must_use]
    pub fn description(&self) -> String {
        let Self {
            ringtap,
            kernel,
            processor,
            cpus,
            memory_gib,
            wire,
            ..
        } = self;
        format!(
            "ringtap {ringtap}; Linux {kernel}; {processor}; {cpus} CPUs; {memory_gib} GiB; {wire}"
        )
    }
}

/// Returns a hash over the bytes of the measured program and of this one, which contains the
/// experiments. It is empty if one of the two cannot be read.
pub(crate) fn build(ringtap: &Path) -> String {
    let hash = |seed, program: &Path| {
        let bytes = std::fs::read(program).ok()?;
        Some(XxHash64::oneshot(seed, &bytes))
    };
    let own = std::env::current_exe().ok();
    let hash = hash(0, ringtap).and_then(|seed| hash(seed, &own?));
    hash.map_or_else(String::new, |hash| format!("{hash:016x}"))
}

/// Returns the first line that a program prints; empty if it cannot be run.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output
        .map(|output| [output.stdout, output.stderr].concat())
        .unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
        .to_owned()
}
