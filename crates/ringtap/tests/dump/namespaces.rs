//! `--netns all`: the interfaces of all network namespaces, of those that appear later, and of containers.
//!
//! A test has numbers of processes, mounts and networks of its own, so that the host's are not captured.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ringtap_testkit::process::{Running, descendants, kill};
use ringtap_testkit::{Need, Test, podman, test};
use serde_json::Value;

use crate::program::{LIMIT, RINGTAP, dump, finished, stderr, stdout, succeeded};

const NEEDS: [Need; 6] = [
    Need::Root,
    Need::Kernel(5, 12),
    Need::Tool("ip"),
    Need::Tool("nsenter"),
    Need::Tool("ping"),
    Need::Tool("unshare"),
];

/// Packets of a wire that appears while others are captured. The kernel takes some hundredths of a second until a
/// program is attached.
const LATER: u32 = 400;

pub(crate) fn tests() -> Vec<Test> {
    let tshark = [&NEEDS[..], &[Need::Tool("tshark")]].concat();
    let containers = [
        &NEEDS[..],
        &[
            Need::Tool("podman"),
            Need::Tool("runc"),
            Need::Tool("setpriv"),
        ],
    ];
    vec![
        test("all_network_namespaces_are_captured", &tshark, everywhere),
        test("a_captured_namespace_can_go", &NEEDS, gone),
        test("an_interface_moves_to_another_namespace", &NEEDS, moved),
        test(
            "the_follower_of_namespaces_is_killed",
            &NEEDS,
            follower_killed,
        ),
        test(
            "containers_are_captured_at_once",
            &containers.concat(),
            on_a_bridge,
        ),
        test(
            "what_cannot_work_in_all_namespaces_is_refused",
            &[],
            refused,
        ),
    ]
}

/// Namespaces of processes, mounts and networks; its first process sleeps.
struct World {
    _process: Running,
    first: String,
}

impl World {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--mount-proc",
        ]);
        // Names of namespaces are below /run.
        let own = "mount -t tmpfs tmpfs /run && mkdir /run/netns && exec sleep 600";
        let process = Running::start(command.args(["sh", "-c", own])).expect("unshare starts");
        let deadline = Instant::now() + LIMIT;
        let first = loop {
            let found = descendants(process.id())
                .into_iter()
                .find(|process| has_name(*process, "sleep"));
            if let Some(first) = found {
                break first.to_string();
            }
            assert!(Instant::now() < deadline, "no process sleeps");
            thread::sleep(Duration::from_millis(10));
        };
        let world = Self {
            _process: process,
            first,
        };
        world.ip("link set lo up");
        world
    }

    /// Returns a command that runs there.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([
            "-t",
            &self.first,
            "--net",
            "--pid",
            "--mount",
            "--",
            program,
        ]);
        command
    }

    fn run(&self, words: &str) -> bool {
        let mut words = words.split(' ');
        let mut command = self.command(words.next().expect("a program"));
        let output = command.args(words).output().expect("nsenter runs");
        output.status.success()
    }

    fn ip(&self, words: &str) {
        assert!(self.run(&format!("ip {words}")), "ip {words}");
    }

    /// Makes a namespace with a name.
    fn add(&self, name: &str) {
        self.ip(&format!("netns add {name}"));
        self.ip(&format!("-n {name} link set lo up"));
    }

    /// Joins two named namespaces by a wire, with the addresses 10.NET.0.1 and 10.NET.0.2.
    fn join(&self, [(one, its), (other, others)]: [(&str, &str); 2], net: u8) {
        let peer = format!("peer name {others} netns {other}");
        self.ip(&format!("-n {one} link add {its} type veth {peer}"));
        for (name, device, host) in [(one, its, 1), (other, others, 2)] {
            self.ip(&format!(
                "-n {name} addr add 10.{net}.0.{host}/24 dev {device}"
            ));
            self.ip(&format!("-n {name} link set {device} up"));
        }
    }

    /// Starts a capture of all namespaces that ends after so many packets.
    fn capture(&self, file: &Path, packets: u32) -> Running {
        let mut command = self.command(RINGTAP);
        command.args([
            "dump",
            "-i",
            "any",
            "--netns",
            "all",
            "-c",
            &packets.to_string(),
            "-w",
        ]);
        command
            .arg(file)
            .args(["icmp", "and", "not", "host", "127.0.0.1"]);
        let mut capture = Running::start_piped(&mut command).expect("ringtap starts");
        let told = capture.wait_until_told("capturing on any", LIMIT);
        told.unwrap_or_else(|error| panic!("{error}: {}", capture.said()));
        capture
    }

    /// Sends echo requests from a namespace until the capture has ended.
    fn ping_until_the_end(&self, mut capture: Running, from: &str, address: &str) {
        let deadline = Instant::now() + LIMIT;
        while !capture.has_ended() {
            assert!(Instant::now() < deadline, "{}", capture.said());
            self.run(&format!("{from} ping -c 1 -W 1 {address}"));
        }
        let output = succeeded(capture.wait(LIMIT).expect("ringtap ends"));
        let said = stderr(&output);
        assert!(!said.contains("not captured"), "{said}");
    }
}

pub(crate) fn has_name(process: u32, expected: &str) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
    name.is_ok_and(|name| name.trim() == expected)
}

/// Returns the packets of a file.
fn packets_of(file: &Path) -> Vec<Value> {
    let output = succeeded(finished(dump().args(["--json", "-r"]).arg(file)));
    let text = stdout(&output);
    let packets = text.lines().map(serde_json::from_str);
    packets.collect::<Result<_, _>>().expect("JSON")
}

/// Returns interface and direction of each packet of a file.
fn captured_on(file: &Path) -> BTreeSet<(String, String)> {
    let packets = packets_of(file).into_iter().map(|packet| {
        let field = |name: &str| packet[name].as_str().unwrap_or("missing").to_owned();
        (field("interface"), field("direction"))
    });
    packets.collect()
}

fn both_directions(interfaces: &[&str]) -> BTreeSet<(String, String)> {
    let both = interfaces
        .iter()
        .flat_map(|name| ["in", "out"].map(|direction| ((*name).to_owned(), direction.to_owned())));
    both.collect()
}

/// Two namespaces at the start; a third one appears later, and an interface in one that was there.
fn everywhere() {
    let world = World::new();
    world.add("blue");
    world.add("red");
    world.join([("blue", "va"), ("red", "vb")], 77);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("all.pcapng");
    let capture = world.capture(&file, 8 + LATER);
    assert!(world.run("ip netns exec blue ping -c 2 -i 0.2 10.77.0.2"));
    world.add("late");
    world.join([("late", "vc"), ("blue", "vd")], 78);
    world.ping_until_the_end(capture, "ip netns exec late", "10.78.0.2");
    let expected = ["blue/va", "red/vb", "late/vc", "blue/vd"];
    assert_eq!(captured_on(&file), both_directions(&expected));
    // Text names them, too.
    let output = succeeded(finished(dump().args(["-t", "-r"]).arg(&file)));
    let text = stdout(&output);
    let first = text.lines().next().unwrap_or_default();
    let begin = "blue/va Out IP 10.77.0.1 > 10.77.0.2: ICMP echo request";
    assert!(first.starts_with(begin), "{text}");
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file);
    let output = finished(tshark.args(["-T", "fields", "-e", "frame.interface_name"]));
    let text = stdout(&succeeded(output));
    let named: BTreeSet<&str> = text.lines().collect();
    assert_eq!(named, expected.into_iter().collect());
}

/// A namespace ends with its last process and name, although its interfaces are captured.
fn gone() {
    let world = World::new();
    world.add("blue");
    world.add("red");
    world.join([("blue", "va"), ("red", "vb")], 79);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gone.pcapng");
    let capture = world.capture(&file, 8 + LATER);
    assert!(world.run("ip netns exec blue ping -c 2 -i 0.2 10.79.0.2"));
    world.ip("netns del red");
    // The other end of a wire goes with the namespace.
    let deadline = Instant::now() + LIMIT;
    while world.run("ip -n blue link show va") {
        assert!(Instant::now() < deadline, "the namespace is held");
        thread::sleep(Duration::from_millis(10));
    }
    // Another one with the same name is another one.
    world.add("red");
    world.join([("blue", "va"), ("red", "vb")], 79);
    world.ping_until_the_end(capture, "ip netns exec blue", "10.79.0.2");
    assert_eq!(captured_on(&file), both_directions(&["blue/va", "red/vb"]));
}

/// An interface that goes from one namespace to another has one program at a time.
fn moved() {
    let world = World::new();
    world.add("blue");
    world.add("red");
    world.ip("link add vx type veth peer name vy netns blue");
    world.ip("link set vx up");
    world.ip("-n blue addr add 10.83.0.1/24 dev vy");
    world.ip("-n blue link set vy up");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("moved.pcapng");
    let capture = world.capture(&file, LATER);
    world.ip("link set vx netns red");
    world.ip("-n red addr add 10.83.0.2/24 dev vx");
    world.ip("-n red link set vx up");
    world.ping_until_the_end(capture, "ip netns exec red", "10.83.0.1");
    let mut seen = BTreeSet::new();
    for packet in packets_of(&file) {
        assert!(packet["icmp"].is_object(), "{packet}");
        let parts = ["interface", "direction", "icmp"].map(|name| packet[name].to_string());
        assert!(seen.insert(parts), "captured twice: {packet}");
    }
    assert!(captured_on(&file).contains(&("red/vx".to_owned(), "out".to_owned())));
}

/// The user whose containers are not root's.
const OTHER: &str = "4242";

/// Users of podman, with homes of their own, so that nothing is left in /var.
struct Users<'a> {
    world: &'a World,
    folder: &'a Path,
}

impl<'a> Users<'a> {
    fn new(world: &'a World, folder: &'a Path) -> Self {
        let users = Self { world, folder };
        for user in ["0", OTHER] {
            std::fs::create_dir_all(users.home(user).join("run")).expect("a folder");
            let _ = podman::make_storage(&users.home(user));
            let files = users.files(user);
            std::fs::create_dir(&files).expect("a folder");
            podman::make_files(&files);
            for path in [users.home(user), files] {
                let mut chown = Command::new("chown");
                chown.args(["-R", &format!("{user}:{user}")]).arg(path);
                succeeded(finished(&mut chown));
            }
        }
        succeeded(finished(Command::new("chmod").arg("755").arg(folder)));
        users
    }

    fn home(&self, user: &str) -> PathBuf {
        self.folder.join(format!("home-{user}"))
    }

    fn files(&self, user: &str) -> PathBuf {
        self.folder.join(format!("files-{user}"))
    }

    fn podman(&self, user: &str) -> Command {
        let mut command = self.world.command("setpriv");
        let [uid, gid] = ["uid", "gid"].map(|id| format!("--re{id}={user}"));
        command.args([&uid, &gid, "--clear-groups", "env"]);
        let home = self.home(user);
        command.arg(format!("HOME={}", home.display()));
        command.arg(format!("XDG_RUNTIME_DIR={}/run", home.display()));
        let storage = home.join("storage.conf");
        command.arg(format!("{}={}", podman::STORAGE, storage.display()));
        command.arg("podman");
        command
    }

    /// Starts a container on the bridge. Returns its first process, and the label of its interfaces.
    fn start(&self, user: &str, host: u8) -> (String, String) {
        let (world, name) = (self.world, format!("ringtap-{host}"));
        let id = podman::start(&mut self.podman(user), &name, &self.files(user), &[]);
        let inspect = ["inspect", "--format", "{{.State.Pid}}", &name];
        let pid = podman::podman(&mut self.podman(user), &inspect);
        world.ip(&format!(
            "link add h{host} type veth peer name eth0 netns {pid}"
        ));
        world.ip(&format!("link set h{host} master br0 up"));
        let inside = format!("nsenter -t {pid} --net ip");
        assert!(world.run(&format!("{inside} addr add 10.80.0.{host}/24 dev eth0")));
        assert!(world.run(&format!("{inside} link set eth0 up")));
        // The control group of another user's container does not name it.
        let label = match user {
            "0" => id[..12].to_owned(),
            _ => {
                let mut link = world.command("readlink");
                let output = finished(link.arg(format!("/proc/{pid}/ns/net")));
                stdout(&succeeded(output)).trim().to_owned()
            }
        };
        (pid, label)
    }
}

/// The process that attaches programs is killed, and they go with it: the capture ends with an error.
fn follower_killed() {
    let world = World::new();
    world.add("blue");
    world.add("red");
    world.join([("blue", "va"), ("red", "vb")], 81);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("killed.pcapng");
    let capture = world.capture(&file, 100);
    assert!(world.run("ip netns exec blue ping -c 2 -i 0.2 10.81.0.2"));
    let is_it = |process: &u32| has_name(*process, "ringtap-undo");
    let follower = descendants(capture.id()).into_iter().find(is_it);
    kill(&[follower.expect("a process that follows")]);
    let output = capture.wait(LIMIT).expect("ringtap ends");
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("has ended, and its programs with it"),
        "{told}"
    );
    // The file is complete.
    assert_eq!(captured_on(&file), both_directions(&["blue/va", "red/vb"]));
}

/// Two containers of root and one of another user, on a bridge.
fn on_a_bridge() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let users = Users::new(&world, folder.path());
    world.ip("link add br0 type bridge");
    world.ip("link set br0 up");
    let mut expected = BTreeSet::new();
    let mut pids = Vec::new();
    for (host, user) in [(1, "0"), (2, "0"), (3, OTHER)] {
        let (pid, label) = users.start(user, host);
        expected.extend([format!("{label}/eth0"), format!("h{host}")]);
        pids.push(pid);
    }
    let file = folder.path().join("bridge.pcapng");
    let capture = world.capture(&file, 48);
    for to in [2, 3] {
        let ping = format!("nsenter -t {} --net ping -c 3 -i 0.2 10.80.0.{to}", pids[0]);
        assert!(world.run(&ping));
    }
    succeeded(capture.wait(LIMIT).expect("ringtap ends"));
    let captured = captured_on(&file).into_iter();
    let on: BTreeSet<String> = captured.map(|(name, _)| name).collect();
    assert_eq!(on, expected);
}

fn refused() {
    for words in [
        &["dump", "--netns", "all", "-r", "x.pcap"][..],
        &["devices", "--netns", "all"],
        &["stat", "--netns", "all", "-i", "lo"],
        &[
            "dump", "--netns", "all", "-i", "any", "-w", "x.pcap", "--format", "pcap",
        ],
    ] {
        let output = finished(Command::new(RINGTAP).args(words));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("--netns all: "), "{words:?}: {said}");
    }
    for (device, expected) in [
        ("lo", "on device \"any\", not on \"lo\""),
        (
            "packet:any",
            "engine packet captures in one network namespace",
        ),
    ] {
        let output = finished(dump().args(["--netns", "all", "-i", device]));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(2));
    }
}
