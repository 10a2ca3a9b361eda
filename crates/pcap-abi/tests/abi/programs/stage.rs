//! The environment of a program's run: a separate folder, a library, and sometimes a network.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use ringtap_testkit::corpus;
use ringtap_testkit::netns::{Namespace, Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Sizes, Traffic};

use crate::library::{self, LIMIT, Library, difference};
use crate::versions;

/// Number of packets in the traffic of live captures.
pub(super) const PACKETS: u64 = 200;

/// The file in which the dynamic linker logs what it loads.
const LINKER: &str = "linker";

/// One run of a scenario.
pub(super) struct Stage {
    library: Library,
    folder: tempfile::TempDir,
    /// The namespace of programs that need no network: no name server, and nothing listens.
    nowhere: Namespace,
}

/// Runs a scenario on both libraries and compares what it returns.
///
/// # Errors
/// The lines that differ.
pub(super) fn same(scenario: impl Fn(&Stage) -> String) -> Result<(), String> {
    compare(scenario, |debians| Ok(debians.to_owned()))
}

/// Like [`same`], but for a test with an entry in the list of differences between versions.
///
/// # Errors
/// The lines that differ otherwise.
pub(super) fn same_but_for_versions(
    test: &str,
    scenario: impl Fn(&Stage) -> String,
) -> Result<(), String> {
    compare(scenario, |debians| versions::expected(test, debians))
}

/// `expected` returns what ringtap's run must return if the run on Debian's library returns its
/// argument.
fn compare(
    scenario: impl Fn(&Stage) -> String,
    expected: impl Fn(&str) -> Result<String, String>,
) -> Result<(), String> {
    let [debians, ours] = Library::BOTH.map(|library| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let nowhere = Namespace::new();
        let stage = Stage {
            library,
            folder,
            nowhere,
        };
        let seen = scenario(&stage);
        stage.check_library();
        seen
    });
    assert!(!debians.trim().is_empty(), "the scenario shows nothing");
    match difference(&expected(&debians)?, &ours) {
        Some(difference) => Err(difference),
        None => Ok(()),
    }
}

impl Stage {
    /// Returns whether the library is the tested one.
    pub(super) fn is_ringtap(&self) -> bool {
        self.library == Library::Ringtap
    }

    /// Returns the folder of this run, in which programs work.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a path in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Returns a command for a program, without a network.
    pub(super) fn command(&self, program: &str) -> Command {
        self.prepared(self.nowhere.command(program))
    }

    /// Returns a command for a program in a side's namespace.
    pub(super) fn command_on(&self, side: &Side, program: &str) -> Command {
        self.prepared(side.namespace.command(program))
    }

    fn prepared(&self, mut command: Command) -> Command {
        // Nothing in the environment changes the output of programs: no user settings, no terminal
        // size.
        command.env_clear();
        command.env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        command.env("HOME", self.folder()).env("TERM", "dumb");
        command.env("COLUMNS", "80").env("LINES", "24");
        command.env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        self.library.choose(&mut command);
        command.current_dir(self.folder());
        if self.library == Library::Ringtap {
            command.env("LD_DEBUG", "files");
            command.env("LD_DEBUG_OUTPUT", self.path(LINKER));
        }
        command
    }

    /// Checks that the program has loaded the tested library.
    fn check_library(&self) {
        if self.library != Library::Ringtap {
            return;
        }
        let ours = library::folder().to_string_lossy().into_owned();
        let entries = fs::read_dir(self.folder()).expect("the folder of the run");
        let loaded = entries.flatten().any(|entry| {
            let is_log = entry.file_name().to_string_lossy().starts_with(LINKER);
            let text = fs::read(entry.path()).unwrap_or_default();
            is_log && String::from_utf8_lossy(&text).contains(&ours)
        });
        assert!(loaded, "the program did not load {ours}");
    }

    /// Runs a program that must succeed; returns both outputs.
    pub(super) fn finish(&self, command: &mut Command) -> Output {
        let output = library::run(command);
        assert!(
            output.status.success(),
            "{command:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    /// Returns the program's standard output.
    pub(super) fn stdout(&self, command: &mut Command) -> String {
        text(&self.finish(command).stdout)
    }

    /// Returns the standard output, then the standard error output.
    pub(super) fn both(&self, command: &mut Command) -> String {
        let output = self.finish(command);
        format!("{}--\n{}", text(&output.stdout), text(&output.stderr))
    }

    /// Runs a capture on the left end of a pair while the right end sends traffic.
    pub(super) fn capture(&self, pair: &VethPair, command: &mut Command) -> Output {
        let what = format!("{command:?}");
        let mut running = Running::start_piped(command).expect("the program starts");
        let ready = running.wait_until_capturing(&pair.left, LIMIT);
        // The program may have a socket but not have finished its setup.
        let ready = ready.and_then(|()| running.wait_until_resting(LIMIT));
        ready.unwrap_or_else(|error| panic!("{what}: {error}"));
        self.send(&pair.right);
        let output = running.wait(LIMIT);
        let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            output.status.success(),
            "{what}: {}\n{}",
            output.status,
            text(&output.stderr)
        );
        output
    }

    /// Sends the traffic from one end.
    pub(super) fn send(&self, side: &Side) {
        let sent = ringtap_testkit::traffic::Replay::new(
            traffic(self.folder()),
            ringtap_testkit::traffic::Rate::Pps(2000),
        )
        .run(side);
        assert_eq!(sent, PACKETS);
    }
}

/// Returns a file with the traffic of live captures.
pub(super) fn traffic(folder: &Path) -> PathBuf {
    let file = folder.join("traffic.pcap");
    let traffic = Traffic {
        packets: PACKETS,
        sizes: Sizes::Imix,
        ..Traffic::default()
    };
    let totals = traffic.write_file(&file).expect("a file of traffic");
    assert_eq!(totals.packets, PACKETS);
    file
}

/// Returns the path of a file of the corpus.
pub(super) fn sample(name: &str) -> PathBuf {
    let folder = corpus::folder().expect("the corpus is there");
    folder.join(name)
}

/// Bytes as text.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the lines that `keep` accepts.
pub(super) fn lines(text: &str, keep: impl Fn(&str) -> bool) -> String {
    let kept = text.lines().filter(|line| keep(line));
    kept.map(|line| format!("{line}\n")).collect()
}

/// Returns the lines sorted, for programs that print hash tables.
pub(super) fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Returns size and checksum of a file's contents, in one line.
pub(super) fn fingerprint(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}: {} bytes, sum {sum:016x}\n", bytes.len())
}

/// Binds a socket. An earlier socket with this address may still be open for a moment, in a child
/// process of another test before its exec.
fn bind(address: (&str, u16)) -> UdpSocket {
    for _ in 0..200 {
        match UdpSocket::bind(address) {
            Ok(socket) => return socket,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    UdpSocket::bind(address).expect("a socket")
}

/// Sends datagrams from left to right; the receiver's port is closed, so it answers with errors.
pub(super) fn talk(pair: &VethPair, datagrams: u32) {
    pair.left.run(|| {
        let socket = bind(("10.99.0.1", 4000));
        for _ in 0..datagrams {
            // The kernel reports the closed port in between.
            let _ = socket.send_to(&[0x55; 500], ("10.99.0.2", 5000));
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}
