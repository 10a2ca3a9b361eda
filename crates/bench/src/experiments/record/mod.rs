//! `ringtap record` against the rings of files of other programs, and its own limits: losses and processor time
//! ([`rings`]), a window out of a large folder ([`window`]), budget, memory and kills ([`limits`]).

mod limits;
mod rings;
mod window;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringtap_lab::Need;
use ringtap_lab::netns::{Side, VethPair};
use ringtap_lab::process::Running;

use crate::helpers::last_object;
use crate::session::{Done, Session};

/// How long a program may take to start and to end.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)])?;
    session.require_cpus(2)?;
    rings::run(session)?;
    window::run(session)?;
    limits::run(session)
}

/// Returns the command of a recorder at an end of the wire.
fn recorder(session: &Session, side: &Side, folder: &Path, options: &[&str]) -> Command {
    let mut command = side
        .namespace
        .command(&session.ringtap.display().to_string());
    command.args(["record", "-i", &side.device, "--dir"]);
    command.arg(folder).args(["-Z", "root"]).args(options);
    command
}

/// Starts a recorder, and waits until it records.
fn recording(command: &mut Command) -> Result<Running, String> {
    let mut running = Running::start_piped(command).map_err(|error| error.to_string())?;
    let told = running.wait_until_told("recording on", LIMIT);
    told.map_err(|error| format!("{error}: {}", running.said()))?;
    Ok(running)
}

/// Ends a recorder by a signal.
fn end(running: Running) -> Result<String, String> {
    running.signal("INT").map_err(|error| error.to_string())?;
    let output = running.wait(LIMIT).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(said),
    }
}

#[derive(serde::Deserialize)]
struct Answer {
    packets: u64,
}

/// Returns the number of packets in a recorder's folder.
fn packets_of(ringtap: &Path, folder: &Path) -> Result<u64, String> {
    let mut command = Command::new(ringtap);
    command.args(["extract", "--count", "--json-stats", "--dir"]);
    let output = command.arg(folder).output();
    let output = output.map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Option<Answer> = last_object(&told);
    answer.map(|answer| answer.packets).ok_or(told)
}

/// Returns a new wire.
fn wire() -> Result<VethPair, String> {
    let pair = VethPair::new();
    let polling = pair.right.take_frames();
    polling.map_err(|error| error.to_string())?;
    Ok(pair)
}
