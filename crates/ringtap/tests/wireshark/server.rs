//! An ssh server in a network namespace of its own, and captures there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_testkit::netns::{VethOptions, VethPair};
use ringtap_testkit::patience;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Traffic};

use super::{LIMIT, RINGTAP};

/// The port of the server.
pub(crate) const PORT: u16 = 2222;
/// The number of packets of [`Server::send`].
const PACKETS: u64 = 200;
const INTERVAL: Duration = Duration::from_millis(5);

/// A server on the right side of a pair of namespaces; its clients are on the left side.
pub(crate) struct Server {
    pub(crate) pair: VethPair,
    pub(crate) running: Running,
    /// The number of UDP datagrams of [`Server::send`].
    pub(crate) datagrams: u64,
    folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let options = VethOptions {
            ipv6: true,
            ..VethOptions::default()
        };
        let pair = VethPair::with(&options);
        let folder = tempfile::tempdir().expect("a folder");
        configure(folder.path());
        let mut command = pair.right.namespace.command("unshare");
        // sshd wants an empty folder, which only a service has, and its own absolute path.
        let script = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && \
                      PATH=$PATH:/usr/sbin && exec \"$(command -v sshd)\" -D -e -f \"$0\"";
        command.args(["--mount", "sh", "-c", script]);
        command.arg(folder.path().join("sshd_config"));
        let mut running = Running::start_piped(&mut command).expect("it starts");
        let ready = running.wait_until_told("listening on :: port", LIMIT);
        ready.expect("it listens");
        let traffic = Traffic {
            packets: PACKETS,
            interval: 1_000_000,
            ..Traffic::default()
        };
        let totals = traffic.write_file(&folder.path().join("traffic.pcap"));
        Self {
            pair,
            running,
            datagrams: totals.expect("a file").udp,
            folder,
        }
    }

    /// Returns the path of a file of the server or its clients.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the command of a capture, with the options that reach the server unless others are given.
    pub(crate) fn capture(&self, file: &Path, words: &[&str]) -> Command {
        let program = self.file("ringtap-extcap");
        let mut command = self.client(&program.to_string_lossy());
        command.args(["--capture", "--extcap-interface", "ringtap-ssh", "--fifo"]);
        command.arg(file);
        for (name, value) in self.options() {
            let option = format!("--{name}={value}");
            let start = format!("--{name}=");
            if !words.iter().any(|word| word.starts_with(&start)) {
                command.arg(option);
            }
        }
        command.args(words);
        command
    }

    /// Returns the options that reach the server, without the dashes of their names.
    pub(crate) fn options(&self) -> [(&'static str, String); 5] {
        [
            ("remote-host", self.pair.right.ipv4.to_string()),
            ("remote-port", PORT.to_string()),
            ("sshkey", self.file("key").display().to_string()),
            ("remote-interface", self.pair.right.device.clone()),
            ("remote-program", RINGTAP.to_owned()),
        ]
    }

    /// Returns a command on the side of the clients that finds the ssh of this test: the system's, with the
    /// configuration of this server instead of the user's.
    pub(crate) fn client(&self, program: &str) -> Command {
        let mut command = self.pair.left.namespace.command(program);
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = self.file("bin");
        command.env("PATH", format!("{}:{path}", folder.display()));
        command
    }

    /// Starts a capture and waits until it captures there.
    pub(crate) fn begin(&mut self, command: &mut Command) -> Running {
        let capture = Running::start_piped(command).expect("it starts");
        let ready = self.running.wait_until_capturing(&self.pair.right, LIMIT);
        ready.unwrap_or_else(|error| panic!("{error}: {}", capture.said()));
        capture
    }

    /// Sends packets to the interface of the server.
    pub(crate) fn send(&self) {
        Replay::new(self.file("traffic.pcap"), Rate::Pps(1000)).run(&self.pair.left);
    }

    /// Returns the number of packets in a file that match a filter.
    pub(crate) fn count(&self, file: &Path, filter: &str) -> u64 {
        let mut command = Command::new(RINGTAP);
        let output = command
            .args(["dump", "--count", "-r"])
            .arg(file)
            .arg(filter);
        let output = output.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let text = String::from_utf8_lossy(&output.stdout);
        let number = text.split_whitespace().next();
        number.and_then(|n| n.parse().ok()).expect("a number")
    }

    /// Returns the clients' ports of the connections of the server.
    pub(crate) fn connections(&self) -> Vec<u16> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let tables = self
            .pair
            .right
            .run(|| read("/proc/thread-self/net/tcp") + &read("/proc/thread-self/net/tcp6"));
        let port = |column: &str| u16::from_str_radix(column.rsplit_once(':')?.1, 16).ok();
        let lines = tables.lines().filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (local, remote, state) = (columns.get(1)?, columns.get(2)?, columns.get(3)?);
            (port(local) == Some(PORT) && *state == "01").then(|| port(remote))?
        });
        lines.collect()
    }

    /// Waits until the server has no process of a session, and no file of one. A process may have lost its parent.
    pub(crate) fn wait_until_alone(&self) {
        self.wait_until("the server is alone", || self.others().is_empty());
        self.wait_until("there are no files", || self.leftovers().is_empty());
    }

    /// Returns the other processes in the network namespace of the server.
    fn others(&self) -> Vec<String> {
        let namespace = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let own = self.running.id().to_string();
        let its = namespace(&own).expect("a namespace");
        let entries = fs::read_dir("/proc").expect("processes").flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|id| *id != own && namespace(id).as_ref() == Some(&its))
            .collect()
    }

    /// Waits until a state is reached.
    pub(crate) fn wait_until(&self, state: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + patience(LIMIT);
        while !is_so() {
            assert!(
                Instant::now() < deadline,
                "never: {state}\n{}",
                self.running.said()
            );
            thread::sleep(INTERVAL);
        }
    }

    /// Returns the files that sessions have left in the folder for temporary files.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.file("tmp")).expect("a folder");
        entries.map(|entry| entry.expect("a file").path()).collect()
    }
}

/// Writes keys and configurations of the server and its clients.
fn configure(folder: &Path) {
    for key in ["host", "key", "stranger"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        let made = command.arg(folder.join(key)).status();
        assert!(made.expect("ssh-keygen runs").success());
    }
    fs::copy(folder.join("key.pub"), folder.join("authorized_keys")).expect("a copy");
    for name in ["bin", "tmp"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    symlink(RINGTAP, folder.join("ringtap-extcap")).expect("a link");
    let at = folder.display();
    let server = format!(
        "Port {PORT}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\nUsePAM no\n\
         StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         SetEnv TMPDIR={at}/tmp\n"
    );
    fs::write(folder.join("sshd_config"), server).expect("a file");
    let client = format!(
        "StrictHostKeyChecking accept-new\nUserKnownHostsFile {at}/known_hosts\nGlobalKnownHostsFile /dev/null\n\
         IdentityAgent none\nIdentityFile none\n"
    );
    fs::write(folder.join("ssh_config"), client).expect("a file");
    // The next ssh of the search path is the system's.
    let script =
        format!("#!/bin/sh\nPATH=${{PATH#{at}/bin:}}\nexec ssh -F {at}/ssh_config \"$@\"\n");
    let path = folder.join("bin/ssh");
    fs::write(&path, script).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
}

/// Returns the lines of standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
