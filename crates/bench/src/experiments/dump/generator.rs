//! The generator: `ringtap gen`, with frames made in the kernel on a processor of its own.

use std::path::PathBuf;
use std::process::Command;

use ringtap_lab::netns::Side;
use serde::Deserialize;

use super::shown;
use crate::helpers::{last_object, median, text};
use crate::session::{Done, Session};
use crate::stage::Sent;

const CPU: &str = "0";
/// The real-time priority of an urgent generator.
const PRIORITY: &str = "50";

/// Packets of one size, at shares of the greatest rate.
pub(crate) struct Generator<'a> {
    side: &'a Side,
    ringtap: PathBuf,
    size: u16,
    /// Whether it preempts all other programs of its processor, as interrupts do.
    urgent: bool,
    /// Packets a second at most.
    most: f64,
}

#[derive(Deserialize)]
struct Report {
    sent: f64,
    seconds: f64,
}

impl<'a> Generator<'a> {
    /// Finds the greatest rate without a capture. An urgent generator has real-time priority.
    pub(crate) fn new(session: &Session, side: &'a Side, size: u16, urgent: bool) -> Done<Self> {
        let mut generator = Self {
            side,
            ringtap: session.ringtap.clone(),
            size,
            urgent,
            most: f64::INFINITY,
        };
        let seconds = session.amount("500ms", "300ms");
        let rate = |_| {
            let sent = generator.run(generator.command().args(["--duration", seconds]))?;
            Ok(sent.packets / sent.seconds)
        };
        generator.most = median((0..3).map(rate).collect::<Done<_>>()?);
        Ok(generator)
    }

    /// Offers packets for this long, at a percentage of the maximum rate, but no more than `most` packets.
    pub(crate) fn send(&self, load: u32, seconds: f64, most: f64) -> Done<Sent> {
        let rate = self.most * f64::from(load) / 100.0;
        let count = (rate * seconds).min(most).max(1.0);
        let mut command = self.command();
        command.args(["--count", &format!("{count:.0}")]);
        // The greatest rate needs no schedule.
        if load < 100 {
            command.args(["--pps", &format!("{rate:.0}")]);
        }
        self.run(&mut command)
    }

    fn command(&self) -> Command {
        let ringtap = shown(&self.ringtap);
        let mut command = if self.urgent {
            let mut command = self.side.namespace.command("chrt");
            command.args(["--fifo", PRIORITY, &ringtap]);
            command
        } else {
            self.side.namespace.command(&ringtap)
        };
        command.args(["gen", "-i", &format!("live:{}", self.side.device)]);
        command.args(["--cpu", CPU, "--json-stats", "--yes"]);
        command.args(["--size", &self.size.to_string()]);
        command
    }

    fn run(&self, command: &mut Command) -> Done<Sent> {
        sent_by(command, "the generator")
    }
}

/// Runs a sender with `--json-stats`, and returns what it sent.
pub(crate) fn sent_by(command: &mut Command, name: &str) -> Done<Sent> {
    let said = text(&command.output()?.stderr);
    let report: Report = last_object(&said).ok_or_else(|| format!("{name}: {said}"))?;
    Ok(Sent {
        packets: report.sent,
        seconds: report.seconds.max(1e-3),
        processor: 0.0,
    })
}
