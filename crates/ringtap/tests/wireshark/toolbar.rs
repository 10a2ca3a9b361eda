//! The toolbar: messages in its pipes, with the counters of a capture.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Sizes, Traffic};

use super::server::{Server, said};
use super::{LIMIT, RINGTAP};

const CAPTURED: u8 = 0;
const LOST: u8 = 1;
const LOG: u8 = 2;
const SET: u8 = 1;
const ADD: u8 = 2;
const DISABLE: u8 = 5;
/// Wireshark's message that it is ready.
const INITIALIZED: [u8; 6] = [b'T', 0, 0, 2, 0, 0];

/// A message: the control, the command, the value.
type Message = (u8, u8, String);

/// Returns the messages in the bytes of a pipe.
fn messages(mut bytes: &[u8]) -> Vec<Message> {
    let mut found = Vec::new();
    while let [sync, a, b, c, rest @ ..] = bytes {
        assert_eq!(*sync, b'T');
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (message, others) = rest.split_at(length);
        let value = str::from_utf8(&message[2..]).expect("a text");
        found.push((message[0], message[1], value.to_owned()));
        bytes = others;
    }
    assert_eq!(bytes, [] as [u8; 0]);
    found
}

/// Returns the value that a field has in the end.
fn value(messages: &[Message], control: u8) -> String {
    let mut set = messages
        .iter()
        .filter(|(to, command, _)| *to == control && *command == SET);
    set.next_back().expect("a value").2.clone()
}

/// Returns the lines that were added to the log.
fn log(messages: &[Message]) -> String {
    let lines = messages
        .iter()
        .filter(|(to, command, _)| *to == LOG && *command == ADD);
    lines.map(|(_, _, line)| line.as_str()).collect()
}

/// The pipes of a toolbar.
struct Pipes {
    input: PathBuf,
    output: PathBuf,
}

impl Pipes {
    fn make(folder: &Path) -> Self {
        let [input, output] = ["in", "out"].map(|name| folder.join(name));
        let made = Command::new("mkfifo").arg(&input).arg(&output).status();
        assert!(made.expect("mkfifo runs").success());
        Self { input, output }
    }

    fn words(&self) -> [&str; 4] {
        [
            "--extcap-control-in",
            self.input.to_str().expect("a name"),
            "--extcap-control-out",
            self.output.to_str().expect("a name"),
        ]
    }

    /// Reads the messages to their end.
    fn read(&self) -> Running {
        Running::start_piped(Command::new("cat").arg(&self.output)).expect("it starts")
    }
}

/// A capture on the left side of a pair.
struct Scene {
    pair: VethPair,
    folder: tempfile::TempDir,
    pipes: Pipes,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        symlink(RINGTAP, folder.path().join("ringtap-extcap")).expect("a link");
        Self {
            pair: VethPair::new(),
            pipes: Pipes::make(folder.path()),
            folder,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn begin(&self) -> Running {
        let program = self.file("ringtap-extcap");
        let left = &self.pair.left;
        let mut command = left.namespace.command(&program.to_string_lossy());
        command.args(["--capture", "--extcap-interface", "ringtap-packet-veth0"]);
        command.args(["--buffer", "128K", "--fifo"]);
        command
            .arg(self.file("capture.pcapng"))
            .args(self.pipes.words());
        let mut capture = Running::start_piped(&mut command).expect("it starts");
        let ready = capture.wait_until_capturing(left, LIMIT);
        ready.expect("it captures");
        // It has its signal handlers when it waits for packets.
        capture.wait_until_resting(LIMIT).expect("it waits");
        capture
    }
}

pub(crate) fn listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("ringtap-extcap");
    symlink(RINGTAP, &program).expect("a link");
    let output = Command::new(program).arg("--extcap-interfaces").output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("a text");
    for sentence in [
        "interface {value=ringtap-ssh}{display=ringtap over ssh: remote capture}",
        "control {number=0}{type=string}{display=Captured}",
        "control {number=1}{type=string}{display=Lost}",
        "control {number=2}{type=button}{role=logger}{display=Log}",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(sentence)),
            "{text}"
        );
    }
}

pub(crate) fn counters() {
    let scene = Scene::new();
    let reader = scene.pipes.read();
    let capture = scene.begin();
    let mut input = OpenOptions::new();
    let mut input = input.write(true).open(&scene.pipes.input).expect("a pipe");
    input.write_all(&INITIALIZED).expect("a message");

    let traffic = Traffic {
        packets: 500,
        sizes: Sizes::Fixed(1500),
        ..Traffic::default()
    };
    let file = scene.file("traffic.pcap");
    traffic.write_file(&file).expect("a file");
    // Nobody empties the ring, which has room for fewer.
    capture.signal("STOP").expect("a signal");
    Replay::new(&file, Rate::Pps(2000)).run(&scene.pair.right);
    capture.signal("CONT").expect("a signal");
    capture.signal("TERM").expect("a signal");
    let output = capture.wait(LIMIT).expect("it ends");
    assert!(output.status.success(), "{}", said(&output));

    let bytes = reader.wait(LIMIT).expect("it ends").stdout;
    let messages = messages(&bytes);
    let captured: u64 = value(&messages, CAPTURED).parse().expect("a number");
    let lost = traffic.packets - captured;
    assert!(captured > 0 && lost > 0, "{captured} captured");
    assert_eq!(value(&messages, LOST), format!("ring {lost}, interface 0"));
    for field in [CAPTURED, LOST] {
        assert!(messages.contains(&(field, DISABLE, String::new())));
    }
    // The message that Wireshark is ready makes the log be sent again.
    assert!(value(&messages, LOG).starts_with("capturing on veth0 (engine packet), link type "));
    let log = log(&messages);
    let end = format!("end: {captured} packets captured; lost: ring {lost}, interface 0\n");
    assert!(log.ends_with(&end), "{log}");
    // Wireshark shows what is on standard error as an error.
    assert_eq!(said(&output), "");
}

pub(crate) fn unread() {
    let scene = Scene::new();
    let capture = scene.begin();
    capture.signal("TERM").expect("a signal");
    let output = capture.wait(LIMIT).expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output), "");
}

pub(crate) fn remote() {
    let mut server = Server::start();
    let pipes = Pipes::make(&server.file("bin"));
    let (file, seen) = (server.file("capture.pcapng"), server.file("messages"));
    let mut copy = Command::new("sh");
    copy.args(["-c", "exec cat \"$0\" >\"$1\""])
        .arg(&pipes.output);
    let reader = Running::start_piped(copy.arg(&seen)).expect("it starts");
    let mut command = server.capture(&file, &pipes.words());
    command.args(["--extcap-capture-filter", "udp"]);
    let capture = server.begin(&mut command);
    server.send();
    // While it captures.
    let value_set = server.datagrams.to_string();
    let length = u8::try_from(value_set.len() + 2).expect("a short one");
    let mut set = vec![b'T', 0, 0, length, CAPTURED, SET];
    set.extend_from_slice(value_set.as_bytes());
    let is_set = |bytes: &[u8]| bytes.windows(set.len()).any(|part| part == set);
    server.wait_until("the counter is set", || {
        is_set(&fs::read(&seen).unwrap_or_default())
    });
    capture.signal("TERM").expect("a signal");
    let output = capture.wait(LIMIT).expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output), "");
    reader.wait(LIMIT).expect("it ends");
    let messages = messages(&fs::read(&seen).expect("a file"));
    assert_eq!(value(&messages, LOST), "ring 0, interface 0");
    let captured = server.datagrams;
    assert_eq!(server.count(&file, ""), captured);
    let log = log(&messages);
    assert!(log.starts_with("ringtap: capturing on veth1 "), "{log}");
    let end = format!("\nend: {captured} packets captured; lost: ring 0, interface 0\n");
    assert!(log.ends_with(&end), "{log}");
}
