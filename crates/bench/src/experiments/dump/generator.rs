//! The generator: `ringtap gen`, with frames made in the kernel on a processor of its own.

use std::path::PathBuf;
use std::process::Command;

use ringtap_lab::netns::Side;
use serde::Deserialize;

use super::shown;
use crate::helpers::last_object;
use crate::session::Session;

const CPU: &str = "0";
/// The real-time priority of an urgent generator.
const PRIORITY: &str = "50";

/// Packets of one size, at shares of the greatest rate.
pub(in crate::experiments) struct Generator<'a> {
    side: &'a Side,
    ringtap: PathBuf,
    size: u16,
    /// Whether it preempts all other programs of its processor, as interrupts do.
    urgent: bool,
    /// Packets a second at most.
    most: f64,
}

/// The offered packets.
pub(in crate::experiments) struct Sent {
    pub(in crate::experiments) packets: f64,
    pub(in crate::experiments) seconds: f64,
}

#[derive(Deserialize)]
struct Report {
    sent: f64,
    seconds: f64,
}

impl<'a> Generator<'a> {
    /// Finds the greatest rate without a capture.
    pub(in crate::experiments) fn new(
        session: &Session,
        side: &'a Side,
        size: u16,
    ) -> Result<Self, String> {
        Self::with(session, side, size, false)
    }

    /// Returns the same for a generator with real-time priority.
    pub(in crate::experiments) fn urgent(
        session: &Session,
        side: &'a Side,
        size: u16,
    ) -> Result<Self, String> {
        Self::with(session, side, size, true)
    }

    fn with(session: &Session, side: &'a Side, size: u16, urgent: bool) -> Result<Self, String> {
        let mut generator = Self {
            side,
            ringtap: session.ringtap.clone(),
            size,
            urgent,
            most: f64::INFINITY,
        };
        let seconds = session.amount("500ms", "300ms");
        let mut rates = Vec::new();
        for _ in 0..3 {
            let sent = generator.run(generator.command().args(["--duration", seconds]))?;
            rates.push(sent.packets / sent.seconds);
        }
        rates.sort_by(f64::total_cmp);
        generator.most = rates[1];
        Ok(generator)
    }

    /// Offers packets for this long, at a percentage of the maximum rate, but no more than `most` packets.
    pub(in crate::experiments) fn send(
        &self,
        load: u32,
        seconds: f64,
        most: f64,
    ) -> Result<Sent, String> {
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

    fn run(&self, command: &mut Command) -> Result<Sent, String> {
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stderr);
        let report: Report = last_object(&text).ok_or_else(|| format!("the generator: {text}"))?;
        Ok(Sent {
            packets: report.sent,
            seconds: report.seconds.max(1e-3),
        })
    }
}
