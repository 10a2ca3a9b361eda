//! The program under test, in a folder that holds a capture.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;

/// For what should end by itself; a hang fails the test instead of stopping all.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The path of the program.
pub(crate) const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");

/// A folder with the capture `in.pcap`, in which commands run.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// Returns a folder with this many packets in the capture.
    pub(crate) fn new(packets: u64) -> Self {
        let folder = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let traffic = Traffic {
            packets,
            ..Traffic::default()
        };
        traffic
            .write_file(&folder.path("in.pcap"))
            .expect("a capture");
        folder
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `ringtap` with the words of a line, to its end.
    pub(crate) fn run(&self, line: &str) -> Output {
        self.finished(&mut self.command(line))
    }

    /// Returns `ringtap` with the words of a line, to be completed.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(RINGTAP);
        command.args(words(line)).current_dir(self.root());
        command
    }

    /// Runs a line of the shell, in which `$RINGTAP` is the program.
    pub(crate) fn shell(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .env("RINGTAP", RINGTAP)
            .current_dir(self.root());
        self.finished(&mut command)
    }

    pub(crate) fn finished(&self, command: &mut Command) -> Output {
        Running::start_piped(command)
            .and_then(|running| running.wait(LIMIT))
            .expect("ringtap runs")
    }
}

/// Returns the words of a line; quotes keep some together.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let each = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    each.collect()
}

/// Returns the text on standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a file's bytes.
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
