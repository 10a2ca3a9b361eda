//! The machine and the moment that a measurement belongs to.

use std::process::Command;

/// What is written beside every figure.
pub(super) struct Machine {
    /// UTC, to the second.
    pub(super) time: String,
    /// The commit, with a `+` where the tree differs from it.
    pub(super) commit: String,
    /// Kernel, processor, number of CPUs, memory.
    pub(super) description: String,
}

impl Machine {
    pub(super) fn here() -> Self {
        let changed = !first_line("git", &["status", "--porcelain", "-uno"]).is_empty();
        let commit = first_line("git", &["rev-parse", "--short", "HEAD"]);
        Self {
            time: first_line("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
            commit: format!("{commit}{}", if changed { "+" } else { "" }),
            description: description(),
        }
    }
}

fn description() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim().to_owned())
    };
    let kernel = read("/proc/sys/kernel/osrelease");
    let processor = value(&read("/proc/cpuinfo"), "model name").unwrap_or_default();
    let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kilobytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let gigabytes = kilobytes.div_ceil(1 << 20);
    format!(
        "Linux {}; {processor}; {cpus} CPUs; {gigabytes} GiB",
        kernel.trim()
    )
}

/// The first line that a program prints; empty where it cannot be run.
pub(super) fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output
        .map(|output| [output.stdout, output.stderr].concat())
        .unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}
