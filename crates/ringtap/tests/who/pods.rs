//! Kubernetes' layout, built by hand: a node with the bridge of a container network, pods on virtual cables, the
//! control groups of the kubelet, the files and the program of containerd. Captured on the node.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ringtap_testkit::group::ControlGroup;
use ringtap_testkit::netns::Namespace;
use ringtap_testkit::process::Running;
use serde_json::{Value, json};

use super::captured::{LIMIT, RINGTAP};

/// A pod: a network with a process that holds it, and a container.
struct Pod {
    network: Namespace,
    pause: Running,
    uid: String,
    container: String,
    /// The groups of the pause and of the container.
    groups: [ControlGroup; 2],
    host: u8,
    /// containerd's files.
    runtime: PathBuf,
}

/// The program that watches over the containers of a pod: a shell with its name, which runs a container.
const SHIM: &str = "containerd-shim-runc-v2";

impl Pod {
    /// Starts a pod with the address 10.244.0.HOST on the node's bridge. `runtime` is the folder of containerd.
    fn start(node: &Namespace, node_process: u32, host: u8, runtime: &Path) -> Self {
        let network = Namespace::new();
        let mut sleep = network.command("sleep");
        let pause = Running::start(sleep.arg("600")).expect("sleep starts");
        let uid = format!("8f2a7f0e-5d3b-4c55-9f5e-{host:012}");
        let id = |kind: u8| format!("{kind:02x}{host:02x}{:08x}", std::process::id()).repeat(6);
        let [held, container] = [id(1), id(2)].map(|id| id[..64].to_owned());
        let group = |id: &str| {
            let path = format!("kubepods/burstable/pod{uid}/{id}");
            ControlGroup::new(&path).expect("a control group")
        };
        let groups = [group(&held), group(&container)];
        groups[0].add(pause.id()).expect("it is moved");
        let cable = format!("veth{host}");
        let node_process = node_process.to_string();
        let ends = [
            "type",
            "veth",
            "peer",
            "name",
            &cable,
            "netns",
            &node_process,
        ];
        network.output("ip", &[&["link", "add", "eth0"][..], &ends].concat());
        node.output("ip", &["link", "set", &cable, "master", "cni0", "up"]);
        let address = format!("10.244.0.{host}/24");
        network.output("ip", &["addr", "add", &address, "dev", "eth0"]);
        network.output("ip", &["link", "set", "eth0", "up"]);
        let bundle = runtime.join(format!("io.containerd.runtime.v2.task/k8s.io/{container}"));
        fs::create_dir_all(&bundle).expect("a folder");
        let annotations = json!({
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": "shop",
            "io.kubernetes.cri.image-name": "registry.example/shop:2",
            "io.kubernetes.cri.sandbox-name": format!("shop-{host}"),
            "io.kubernetes.cri.sandbox-namespace": "sales",
        });
        let config = json!({"ociVersion": "1.1.0", "annotations": annotations});
        fs::write(bundle.join("config.json"), config.to_string()).expect("a file");
        Self {
            network,
            pause,
            uid,
            container,
            groups,
            host,
            runtime: runtime.to_owned(),
        }
    }

    /// Sends echo requests from the container.
    fn ping(&self, other: &Self) -> Child {
        // The shell's child is the container: the shell has not its control group.
        let ping = format!(
            "echo $$; read go; ping -c 3 -i 0.2 10.244.0.{} >&2",
            other.host
        );
        let shim = self.runtime.join(SHIM);
        let mut command = self.network.command(&shim.to_string_lossy());
        command.args(["-c", "sh -c \"$0\"; exit $?", &ping]);
        let socket = self.runtime.join("containerd.sock");
        command.args(["-namespace", "k8s.io", "-id", "0123", "-address"]);
        command.arg(&socket).stdin(Stdio::piped());
        let output = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = output.spawn().expect("a shell starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a number");
        let process = line.trim().parse().expect("a number");
        self.groups[1].add(process).expect("it is moved");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"\n").expect("sh reads");
        child
    }

    fn end(self) {
        let _ = self.pause.signal("KILL");
        let _ = self.pause.wait(LIMIT);
        drop(self.groups);
    }
}

/// Sets whether packets on the node's bridge pass its IP filters, if the kernel can do that. As kubelets want it, they do;
/// the kernel then takes their sockets from them.
fn filter_on_bridge(node: &Namespace, is_on: bool) {
    let file = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    let set = format!("test ! -e {file} || echo {} > {file}", u8::from(is_on));
    node.output("sh", &["-c", &set]);
}

/// The packets of pods name the container and its pod: both on the bridge, and one on its cable.
pub(crate) fn on_the_bridge() {
    let node = Namespace::new();
    let mut sleep = node.command("sleep");
    let holder = Running::start(sleep.arg("600")).expect("sleep starts");
    node.output("ip", &["link", "add", "cni0", "type", "bridge"]);
    node.output("ip", &["link", "set", "cni0", "up"]);
    let folder = tempfile::tempdir().expect("a folder");
    // Its name is that of its file.
    fs::copy("/bin/sh", folder.path().join(SHIM)).expect("a copy");
    let pods = [11, 12].map(|host| Pod::start(&node, holder.id(), host, folder.path()));
    for (device, is_filtered, named) in [("cni0", false, &pods[..]), ("veth11", true, &pods[..1])] {
        filter_on_bridge(&node, is_filtered);
        let file = folder.path().join(format!("{device}.pcapng"));
        let mut command = node.command(RINGTAP);
        command.args(["dump", "-i", device, "--who", "-c", "12", "-w"]);
        command.arg(&file).arg("icmp");
        let mut capture = Running::start_piped(&mut command).expect("ringtap starts");
        let told = capture.wait_until_told(&format!("capturing on {device}"), LIMIT);
        told.unwrap_or_else(|error| panic!("{error}: {}", capture.said()));
        for (from, to) in [(0, 1), (1, 0)] {
            let status = pods[from].ping(&pods[to]).wait().expect("ping runs");
            assert!(status.success(), "{status}");
        }
        let output = capture.wait(LIMIT).expect("an end");
        assert!(output.status.success(), "{output:?}");
        let mut command = Command::new(RINGTAP);
        let output = command.args(["dump", "--json", "-r"]).arg(&file).output();
        let text = String::from_utf8(output.expect("ringtap runs").stdout).expect("UTF-8");
        check(&text, named);
    }
    pods.into_iter().for_each(Pod::end);
    let _ = holder.signal("KILL");
    let _ = holder.wait(LIMIT);
}

fn check(text: &str, pods: &[Pod]) {
    let mut senders = BTreeSet::new();
    for line in text.lines() {
        let packet: Value = serde_json::from_str(line).expect("JSON");
        if packet["icmp"]["type"] != 8 {
            continue;
        }
        let from = packet["ipv4"]["src"].as_str().unwrap_or_default();
        let is_from = |pod: &&Pod| from == format!("10.244.0.{}", pod.host);
        let Some(pod) = pods.iter().find(is_from) else {
            continue;
        };
        let process = &packet["process"];
        assert_eq!(process["comm"], "ping", "{packet}");
        let container = &process["container"];
        let fields = ["id", "pod", "name", "image", "pod_name"].map(|field| &container[field]);
        let pod_name = format!("sales/shop-{}", pod.host);
        let expected = [
            &*pod.container,
            &pod.uid,
            "shop",
            "registry.example/shop:2",
            &pod_name,
        ];
        assert_eq!(fields, expected, "{packet}");
        senders.insert(pod.host);
    }
    assert_eq!(senders.len(), pods.len(), "{text}");
}
