//! The program under test, started on its own or inside a namespace.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use ringtap_testkit::netns::Side;
use ringtap_testkit::process::Running;

/// For what should end by itself; a hang fails the test instead of stopping all.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The path of the program.
pub(crate) const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");

/// Returns `ringtap dump`, to be completed.
pub(crate) fn dump() -> Command {
    let mut command = Command::new(RINGTAP);
    command.arg("dump");
    command
}

/// Returns `ringtap dump -i DEVICE` inside a side's namespace, to be completed.
pub(crate) fn dump_live(side: &Side) -> Command {
    let mut command = side.namespace.command(RINGTAP);
    command.args(["dump", "-i", &side.device]);
    command
}

/// Starts a live capture and waits until it captures.
pub(crate) fn capturing(command: &mut Command, side: &Side) -> Running {
    let mut running = Running::start_piped(command).expect("ringtap starts");
    running
        .wait_until_capturing(side, LIMIT)
        .expect("ringtap captures");
    running
}

/// Interrupts a capture as Ctrl-C does, after its timeout has passed, and returns its output.
pub(crate) fn interrupted(running: Running) -> Output {
    running.signal("INT").expect("a signal");
    succeeded(running.wait(LIMIT).expect("ringtap ends"))
}

/// Runs to the end and returns the output.
pub(crate) fn finished(command: &mut Command) -> Output {
    Running::start_piped(command)
        .and_then(|running| running.wait(LIMIT))
        .expect("ringtap runs")
}

/// Returns the output of a run, which must be a success.
pub(crate) fn succeeded(output: Output) -> Output {
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        stderr(&output)
    );
    output
}

/// Returns the text on standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the text on standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the number in a line `N packets WHAT` of the summary.
pub(crate) fn figure(summary: &str, what: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.ends_with(what))?;
    line.split(' ').next()?.parse().ok()
}

/// Returns the frames of a pcap file that was written completely.
pub(crate) fn frames(bytes: &[u8]) -> Vec<&[u8]> {
    let pcap = ringtap_testkit::pcap::Pcap::parse(bytes).expect("a pcap file");
    pcap.records()
        .map(|record| record.expect("a whole record").data)
        .collect()
}

/// Returns a file's bytes.
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
