//! `--container`: the network of a container, by its id or its name.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ringtap_testkit::group::ControlGroup;
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::podman;
use ringtap_testkit::process::Running;
use serde_json::{Value, json};

use super::captured::{LIMIT, RINGTAP};

fn devices(container: &str) -> Output {
    let mut command = Command::new(RINGTAP);
    let output = command.args(["devices", "--container", container]).output();
    output.expect("ringtap runs")
}

/// A process in a network and in a control group with the name of a container's.
struct Contained {
    process: Running,
    group: Option<ControlGroup>,
}

impl Contained {
    fn start(side: &Side, group: &str) -> Self {
        let mut command = side.namespace.command("sleep");
        let process = Running::start(command.arg("600")).expect("sleep starts");
        let group = ControlGroup::new(group).expect("a control group");
        group.add(process.id()).expect("it is moved");
        let group = Some(group);
        Self { process, group }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _ = self.process.signal("KILL");
        while !self.process.has_ended() {
            std::thread::yield_now();
        }
        drop(self.group.take());
    }
}

/// Docker's and LXC's groups, made by hand.
pub(crate) fn by_group() {
    let pair = VethPair::new();
    let id = format!("{:08x}", std::process::id()).repeat(8);
    let name = format!("shop{}", std::process::id());
    let _first = Contained::start(&pair.left, &format!("docker-{id}.scope"));
    let _second = Contained::start(&pair.right, &format!("lxc.payload.{name}"));
    let ends = [&pair.left, &pair.right].map(|side| side.device.as_str());
    for (container, end) in [(&*id, 0), (&id[..12], 0), (&id[..8], 0), (&*name, 1)] {
        let output = devices(container);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{container}: {output:?}");
        let has = |end: usize| text.contains(&format!(": {} (", ends[end]));
        assert!(has(end) && !has(1 - end), "{container}: {text}");
    }
    let text = named_by_docker(&id, &format!("desk{}", std::process::id()));
    assert!(text.contains(&format!(": {} (", ends[0])), "{text}");
    let output = devices("no-such-container");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let listed = format!("docker {}", &id[..12]);
    assert!(
        said.contains("no such container runs here (running: "),
        "{said}"
    );
    // The error lists only the first of many containers.
    let is_listed = said.contains(&listed) && said.contains(&name);
    assert!(is_listed || said.contains(", …)"), "{said}");
    // Another id with the same first digits, and another network.
    let other = format!("{}{}", &id[..16], "0".repeat(48));
    let _third = Contained::start(&pair.right, &format!("docker-{other}.scope"));
    let output = devices(&id[..8]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("several containers have this name"), "{said}");
    assert!(devices(&other).status.success());
}

/// Returns the devices that `--container NAME` finds where Docker has a container with this id and name.
fn named_by_docker(id: &str, name: &str) -> String {
    // Docker's files are made for this command alone.
    let script = "set -e; mount -t tmpfs tmpfs /var/lib; mkdir -p /var/lib/docker/containers/$1
        test ! -d /etc/docker || mount -t tmpfs tmpfs /etc/docker
        printf %s \"$2\" > /var/lib/docker/containers/$1/config.v2.json
        exec \"$0\" devices --container $3";
    let config = json!({
        "ID": id, "Name": format!("/{name}"), "Config": {"Image": "shop:3", "Env": ["A=b"]}, "State": {"Pid": 1},
    });
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, RINGTAP, id]);
    let output = command.arg(config.to_string()).arg(name).output();
    let output = output.expect("unshare runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A container of podman that sleeps. It has the host's programs.
struct Container {
    storage: PathBuf,
    name: String,
    id: String,
    pid: String,
}

/// The image of the test's containers.
const IMAGE: &str = "localhost/ringtap-shop:1";

impl Container {
    fn start(storage: &Path, name: &str) -> Self {
        let mut container = Self {
            storage: storage.to_owned(),
            name: format!("ringtap-{name}-{}", std::process::id()),
            id: String::new(),
            pid: String::new(),
        };
        let (mut run, options) = (container.command("podman"), ["--cap-add", "NET_RAW"]);
        container.id = podman::start_image(&mut run, &container.name, IMAGE, &options);
        let inspect = ["inspect", "--format", "{{.State.Pid}}", &container.name];
        container.pid = podman::podman(&mut container.command("podman"), &inspect);
        container
    }

    /// Returns a command that uses its storage, if it asks podman.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env(podman::STORAGE, &self.storage);
        command
    }

    /// Runs a command in the container's network.
    fn ip(&self, arguments: &[&str]) {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.pid, "-n", "ip"]).args(arguments);
        let output = command.output().expect("nsenter runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let mut command = self.command("podman");
        let _ = command.args(["rm", "-f", "-t", "0", &self.name]).output();
    }
}

/// Two containers on a wire; the capture enters one by its name, and names the other's process never.
pub(crate) fn by_name() {
    let files = tempfile::tempdir().expect("a folder");
    podman::make_files(files.path());
    let folder = tempfile::tempdir().expect("a folder");
    let storage = podman::make_storage(folder.path());
    let mut import = Command::new("podman");
    import.env(podman::STORAGE, &storage);
    podman::make_image(&mut import, IMAGE, files.path(), folder.path());
    let [one, two] = ["one", "two"].map(|name| Container::start(&storage, name));
    let wire = ["link", "add", "va", "type", "veth", "peer", "name", "vb"];
    one.ip(&[&wire[..], &["netns", &two.pid]].concat());
    for (container, device, address) in [(&one, "va", "10.98.0.1/24"), (&two, "vb", "10.98.0.2/24")]
    {
        container.ip(&["addr", "add", address, "dev", device]);
        container.ip(&["link", "set", device, "up"]);
    }
    let file = folder.path().join("one.pcapng");
    let mut command = Command::new(RINGTAP);
    command.args(["dump", "--container", &one.name, "-i", "va", "--who"]);
    // The name decides live, too.
    let filter = format!("icmp and (container {} or inbound)", one.name);
    command.args(["-c", "6", "--extended", &filter, "-w"]);
    let mut capture = Running::start_piped(command.arg(&file)).expect("ringtap starts");
    let told = capture.wait_until_told("capturing on va", LIMIT);
    told.unwrap_or_else(|error| panic!("{error}: {}", capture.said()));
    let ping = ["exec", &one.name, "/usr/bin/ping", "-c", "3", "10.98.0.2"];
    podman::podman(&mut one.command("podman"), &ping);
    let output = capture.wait(LIMIT).expect("an end");
    assert!(output.status.success(), "{output:?}");
    let text = read_back(&file, &["--json"]);
    let packets: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(packets.len(), 6, "{text}");
    for packet in packets.iter().filter(|packet| packet["direction"] == "out") {
        let process = &packet["process"];
        assert_eq!(process["comm"], "ping", "{packet}");
        let container = &process["container"];
        let fields = ["id", "name", "image", "runtime"].map(|field| &container[field]);
        assert_eq!(fields, [&*one.id, &one.name, IMAGE, "podman"], "{packet}");
    }
    assert!(!text.contains(&two.id), "{text}");
    let output = devices(&two.name);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("vb") && !text.contains("va"), "{text}");
    // Text names the container, and so do filters on files.
    let named = format!("container {}", one.name);
    let text = read_back(&file, &["-tv", "--extended", &named]);
    let is_named =
        |line: &&str| line.starts_with("[ping:") && line.contains(&format!(" {named}] "));
    assert_eq!(text.lines().filter(is_named).count(), 3, "{text}");
    assert_eq!(text.matches("echo request").count(), 3, "{text}");
    let other = format!("container {}", two.name);
    assert_eq!(read_back(&file, &["--extended", &other]), "");
}

/// Returns what `dump` prints of a file.
fn read_back(file: &Path, options: &[&str]) -> String {
    let mut command = Command::new(RINGTAP);
    let output = command
        .args(["dump", "-r"])
        .arg(file)
        .args(options)
        .output();
    let output = output.expect("ringtap runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
