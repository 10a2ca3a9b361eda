//! `ringtap record` against the rings of files of other programs, and its own limits: losses and processor time
//! ([`rings`]), a window out of a large folder ([`window`]), budget, memory and kills ([`limits`]).

mod limits;
mod rings;
mod window;

use std::path::Path;
use std::process::Command;

use ringtap_lab::Need;
use ringtap_lab::netns::{Side, VethPair};
use ringtap_lab::process::Running;

use crate::helpers::{LIMIT, last_object, text};
use crate::session::{Done, Session};

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    rings::run(session)?;
    window::run(session)?;
    limits::run(session)
}

/// Returns the command of a recorder at an end of the wire.
fn recorder(session: &Session, side: &Side, folder: &Path, options: &[&str]) -> Command {
    let ringtap = session.ringtap.display().to_string();
    let mut command = side.namespace.command(&ringtap);
    command.args(["record", "-i", &side.device, "--dir"]);
    command.arg(folder).args(["-Z", "root"]).args(options);
    command
}

/// Starts a recorder, and waits until it records.
fn recording(command: &mut Command) -> Done<Running> {
    let mut running = Running::start_piped(command)?;
    let told = running.wait_until_told("recording on", LIMIT);
    told.map_err(|error| format!("{error}: {}", running.said()))?;
    Ok(running)
}

#[derive(serde::Deserialize)]
struct Answer {
    packets: u64,
}

/// Returns the number of packets in a recorder's folder.
fn packets_of(ringtap: &Path, folder: &Path) -> Done<u64> {
    let mut command = Command::new(ringtap);
    command.args(["extract", "--count", "--json-stats", "--dir"]);
    let told = text(&command.arg(folder).output()?.stderr);
    let answer: Option<Answer> = last_object(&told);
    Ok(answer.ok_or(told)?.packets)
}

/// Returns a new wire.
fn wire() -> Done<VethPair> {
    let pair = VethPair::new();
    pair.right.take_frames()?;
    Ok(pair)
}
