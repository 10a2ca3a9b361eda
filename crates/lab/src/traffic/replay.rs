//! Sends a capture file into an interface, with `tcpreplay`. (It fails on devices named `tap…`,
//! which it treats differently.)

use std::path::PathBuf;
use std::time::Duration;

use crate::netns::Side;
use crate::process::Running;

/// The longest time for sending.
const LIMIT: Duration = Duration::from_secs(600);

/// The rate at which packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Packets a second.
    Pps(u32),
    /// As fast as the sender can.
    Top,
}

/// A capture file to send. Needs [`Need::Tool("tcpreplay")`](crate::Need::Tool).
#[derive(Clone, Debug)]
pub struct Replay {
    /// The file; its packets are read into memory first, so that disks do not disturb the rate.
    pub file: PathBuf,
    /// The rate.
    pub rate: Rate,
    /// How often the file is sent.
    pub times: u32,
}

/// A running sender, which is stopped when this is dropped.
#[derive(Debug)]
pub struct Sent(Running);

impl Replay {
    /// Returns a replay that sends a file once.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>, rate: Rate) -> Self {
        Self {
            file: file.into(),
            rate,
            times: 1,
        }
    }

    /// Starts sending out of one end of a pair.
    ///
    /// # Panics
    /// Panics if the sender cannot be started.
    #[must_use = "the sending is to be waited for"]
    pub fn start(&self, side: &Side) -> Sent {
        let program = crate::need::find_tool("tcpreplay").expect("tcpreplay is installed");
        let mut command = side.namespace.command(&program.to_string_lossy());
        command.arg(format!("--intf1={}", side.device));
        command.args(["--preload-pcap", "--quiet"]);
        match self.rate {
            Rate::Pps(pps) => command.arg(format!("--pps={pps}")),
            Rate::Top => command.arg("--topspeed"),
        };
        command
            .arg(format!("--loop={}", self.times))
            .arg(&self.file);
        Sent(Running::start_piped(&mut command).expect("tcpreplay starts"))
    }

    /// Sends everything and waits for it; returns the number of packets sent.
    ///
    /// # Panics
    /// Panics if the sender fails.
    pub fn run(&self, side: &Side) -> u64 {
        self.start(side).wait()
    }
}

impl Sent {
    /// Waits for the end; returns the number of packets sent.
    ///
    /// # Panics
    /// Panics if the sender failed, or failed to send a packet.
    pub fn wait(self) -> u64 {
        let output = self.0.wait(LIMIT).expect("tcpreplay ends");
        let report = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tcpreplay: {report}{errors}");
        let number = |label: &str| -> Option<u64> {
            let mut lines = report.lines().map(str::trim);
            let rest = lines.find_map(|line| line.strip_prefix(label))?;
            rest.trim().parse().ok()
        };
        let sent = number("Successful packets:");
        let failed = number("Failed packets:");
        assert_eq!(failed, Some(0), "tcpreplay: {report}{errors}");
        sent.unwrap_or_else(|| panic!("tcpreplay says no number: {report}{errors}"))
    }
}
