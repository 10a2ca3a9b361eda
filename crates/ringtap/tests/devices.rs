//! `ringtap devices` against what ip(8) and ethtool(8) say of the same namespace.

use std::collections::HashMap;
use std::net::UdpSocket;
use std::process::{ExitCode, Output, Stdio};
use std::time::Duration;

use ringtap_testkit::netns::{LinkOptions, Namespace, Veth, VethOptions, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, suite, test};
use serde_json::Value;

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For programs that should end by themselves.
const LIMIT: Duration = Duration::from_secs(60);
const HOSTILE: &[u8] = b"\x1b]0;x\x07\xff\x9b2J";

fn main() -> ExitCode {
    let root = &[Need::Root];
    let ip = &[Need::Root, Need::Tool("ip")];
    let ethtool = &[Need::Root, Need::Tool("ethtool")];
    // Older veth devices do not tell ethtool how many queues they have.
    let queues = &[Need::Root, Need::Tool("ethtool"), Need::Kernel(5, 15)];
    let setpriv = &[Need::Root, Need::Tool("setpriv")];
    suite(vec![
        test("json_equals_ip_link", ip, json_equals_ip_link),
        test("json_equals_ip_address", ip, json_equals_ip_address),
        test("json_equals_ethtool", queues, json_equals_ethtool),
        test("json_names_offloads_in_use", ethtool, json_names_offloads),
        test("text_tells_what_there_is", queues, text_tells_what_there_is),
        test(
            "hostile_names_harm_no_terminal",
            root,
            hostile_names_harm_no_terminal,
        ),
        test("devices_are_chosen_by_any_name", root, chosen_by_any_name),
        test(
            "flows_of_another_namespace_are_metered",
            &[Need::Root, Need::InitialPids],
            flows_of_another_namespace,
        ),
        test(
            "another_namespace_is_entered",
            &[Need::Root, Need::InitialPids],
            another_namespace,
        ),
        test("an_unknown_device_is_an_error", root, unknown_device),
        test(
            "an_ordinary_user_is_told_what_is_missing",
            setpriv,
            ordinary_user,
        ),
        test("a_reader_who_leaves_is_no_error", root, reader_leaves),
        test(
            "an_ordinary_run_lists_devices",
            &[Need::Interfaces],
            ordinary_run,
        ),
    ])
}

fn ringtap(namespace: &Namespace, arguments: &[&str]) -> String {
    let arguments = [&["devices"], arguments].concat();
    String::from_utf8(namespace.output(RINGTAP, &arguments).stdout).expect("UTF-8")
}

fn json(namespace: &Namespace, arguments: &[&str]) -> Vec<Value> {
    let text = ringtap(namespace, &[&["--json"], arguments].concat());
    let value: Value = serde_json::from_str(&text).expect("JSON");
    value.as_array().expect("an array").clone()
}

fn find<'v>(devices: &'v [Value], name: &str) -> &'v Value {
    devices
        .iter()
        .find(|device| device["name"] == name)
        .expect("listed")
}

fn ip(namespace: &Namespace, arguments: &[&str]) -> Vec<Value> {
    let output = namespace.output("ip", &[&["-j", "-d", "-s"], arguments].concat());
    serde_json::from_slice(&output.stdout).expect("ip writes JSON")
}

/// Two namespaces with a veth pair; on the left also a bridge with a port and a macvlan.
fn network() -> VethPair {
    let options = VethOptions {
        queues: Some(2),
        mtu: Some(4000),
        ..VethOptions::default()
    };
    let pair = VethPair::with(&options);
    let mut netlink = pair.left.namespace.netlink();
    for altname in ["a-name-longer-than-fifteen-bytes", "short"] {
        netlink.add_altname("veth0", altname).expect("a name");
    }
    let default = LinkOptions::default();
    netlink.create("bridge", "br0", &default).expect("a bridge");
    netlink
        .create_veth(&Veth::new("port0", "port1"))
        .expect("a pair");
    netlink.set_master("port0", Some(b"br0")).expect("a port");
    netlink
        .create_macvlan("veth0", "mac0", &default)
        .expect("a macvlan");
    netlink.set_promiscuous("veth0", true).expect("promiscuous");
    pair
}

fn json_equals_ip_link() {
    let pair = network();
    let ours = json(&pair.left.namespace, &[]);
    let theirs = ip(&pair.left.namespace, &["link"]);
    assert_eq!(ours.len(), theirs.len() + 1, "all of them, and any");
    for link in &theirs {
        let device = find(&ours, link["ifname"].as_str().expect("a name"));
        let same = [
            ("index", "ifindex"),
            ("mtu", "mtu"),
            ("mac", "address"),
            ("mac_broadcast", "broadcast"),
            ("promiscuity", "promiscuity"),
            ("rx_queues", "num_rx_queues"),
            ("tx_queues", "num_tx_queues"),
            ("gso_max_size", "gso_max_size"),
            ("scheduler", "qdisc"),
        ];
        for (our_key, their_key) in same {
            assert_eq!(device[our_key], link[their_key], "{our_key} of {device}");
        }
        let state = link["operstate"].as_str().expect("a state").to_lowercase();
        assert_eq!(
            device["state"].as_str().map(|s| s.replace('-', "")),
            Some(state.replace('-', ""))
        );
        let altnames = link
            .get("altnames")
            .cloned()
            .unwrap_or_else(|| Value::Array(Vec::new()));
        assert_eq!(device["altnames"], altnames);
        assert_eq!(device["kind"], link["linkinfo"]["info_kind"]);
        assert_eq!(device["parent"]["name"], link["link"]);
        assert_eq!(device["parent"]["namespace"], link["link_netnsid"]);
        assert_eq!(device["master"]["name"], link["master"]);
        equal_counters(device, &link["stats64"]);
    }
    assert_eq!(find(&ours, "port0")["master"]["name"], "br0");
    assert_eq!(find(&ours, "mac0")["parent"]["name"], "veth0");
    let veth = find(&ours, "veth0");
    assert!(
        veth["flags"]
            .as_array()
            .expect("flags")
            .contains(&"promiscuous".into())
    );
    assert_eq!(veth["link_type"]["name"], "EN10MB");
}

fn equal_counters(device: &Value, theirs: &Value) {
    let same = [
        ("rx_packets", "rx", "packets"),
        ("rx_bytes", "rx", "bytes"),
        ("rx_errors", "rx", "errors"),
        ("rx_dropped", "rx", "dropped"),
        ("multicast", "rx", "multicast"),
        ("rx_over_errors", "rx", "over_errors"),
        ("tx_packets", "tx", "packets"),
        ("tx_bytes", "tx", "bytes"),
        ("tx_errors", "tx", "errors"),
        ("tx_dropped", "tx", "dropped"),
        ("collisions", "tx", "collisions"),
        ("tx_carrier_errors", "tx", "carrier_errors"),
    ];
    for (our_key, direction, their_key) in same {
        let expected = &theirs[direction][their_key];
        assert_eq!(
            device["counters"][our_key], *expected,
            "{our_key} of {device}"
        );
    }
}

fn json_equals_ip_address() {
    let pair = VethPair::with(&VethOptions {
        ipv6: true,
        ..VethOptions::default()
    });
    let namespace = &pair.left.namespace;
    namespace
        .netlink()
        .add_default_route("veth0", pair.right.ipv4.into())
        .expect("a route");
    let ours = json(namespace, &["veth0"]);
    let theirs = ip(namespace, &["address", "show", "veth0"]);
    let (ours, theirs) = (
        &ours[0],
        theirs[0]["addr_info"].as_array().expect("addresses"),
    );
    let addresses = ours["addresses"].as_array().expect("addresses");
    assert_eq!(addresses.len(), theirs.len());
    for (address, expected) in addresses.iter().zip(theirs) {
        assert_eq!(address["family"], expected["family"]);
        assert_eq!(address["address"], expected["local"]);
        assert_eq!(address["prefix_length"], expected["prefixlen"]);
        assert_eq!(address["broadcast"], expected["broadcast"]);
    }
    assert_eq!(addresses[0]["netmask"], "255.255.255.0");
    let route = &ours["default_routes"][0];
    assert_eq!(
        (&route["gateway"], &route["family"]),
        (&"10.99.0.2".into(), &"inet".into())
    );
}

/// ethtool's output for a flag: the lines `name: value`.
fn ethtool(namespace: &Namespace, flag: &str) -> HashMap<String, String> {
    let output = namespace.output("ethtool", &[flag, "veth0"]).stdout;
    let text = String::from_utf8(output).expect("ASCII");
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

fn json_equals_ethtool() {
    let pair = network();
    let namespace = &pair.left.namespace;
    let ours = &json(namespace, &["veth0"])[0];
    let driver = ethtool(namespace, "-i");
    assert_eq!(ours["driver"]["name"], driver["driver"].as_str());
    assert_eq!(ours["driver"]["version"], driver["version"].as_str());
    let channels = ethtool(namespace, "-l");
    // The last section of ethtool's answer shows the settings in use.
    assert_eq!(ours["channels"]["rx"].to_string(), channels["RX"]);
    assert_eq!(ours["channels"]["tx"].to_string(), channels["TX"]);
    let features = ethtool(namespace, "-k");
    let mut compared = 0;
    for feature in ours["features"].as_array().expect("features") {
        let name = feature["name"].as_str().expect("a name");
        if let Some(value) = features.get(name) {
            assert_eq!(feature["active"], value.starts_with("on"), "{name}");
            assert_eq!(feature["changeable"], !value.contains("[fixed]"), "{name}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared} features compared");
    let statistics = ethtool(namespace, "-S");
    let ours = ours["statistics"].as_array().expect("statistics");
    assert_eq!(ours.len(), statistics.len() - 1, "all but the heading");
    for one in ours {
        let name = one["name"].as_str().expect("a name");
        assert_eq!(one["value"].to_string(), statistics[name], "{name}");
    }
}

fn effects(namespace: &Namespace) -> Vec<String> {
    let ours = json(namespace, &["veth0"]);
    let offloads = ours[0]["offloads"].as_array().expect("offloads");
    let effects = offloads
        .iter()
        .map(|one| one["effect"].as_str().expect("a clause").to_owned());
    effects.collect()
}

fn json_names_offloads() {
    let pair = VethPair::new();
    let namespace = &pair.left.namespace;
    namespace.output(
        "ethtool",
        &["-K", "veth0", "gro", "on", "tso", "on", "gso", "on"],
    );
    let clauses = effects(namespace).join("; ");
    for clause in [
        "merged into larger ones",
        "before they are cut",
        "checksums not yet computed",
    ] {
        assert!(clauses.contains(clause), "{clauses}");
    }
    let off = [
        "gro", "off", "tso", "off", "gso", "off", "tx", "off", "rxvlan", "off", "txvlan", "off",
    ];
    namespace.output("ethtool", &[&["-K", "veth0"], &off[..]].concat());
    namespace.output("ethtool", &["-K", "veth0", "tx-udp-segmentation", "off"]);
    let clauses = effects(namespace).join("; ");
    assert!(
        !clauses.contains("merged") && !clauses.contains("checksums"),
        "{clauses}"
    );
}

fn text_tells_what_there_is() {
    let pair = network();
    let text = ringtap(&pair.left.namespace, &[]);
    let [tcx, xdp] = if Need::Kernel(5, 18).unmet().is_none() {
        [
            "engine      tcx (tap at the tcx hook)\n",
            "engine      xdp (tap at the XDP hook)\n",
        ]
    } else {
        ["tcx", "not usable  "]
    };
    for part in [
        "1: lo: state unknown; up loopback running",
        "veth0 (veth): state up; up broadcast running promiscuous multicast lower-up",
        "; promiscuous for ",
        "also called a-name-longer-than-fifteen-bytes\n",
        "also called short\n",
        "link type   EN10MB (Ethernet), MTU 4000\n",
        "MAC         02:99:00:00:00:01\n",
        "address     10.99.0.1/24, netmask 255.255.255.0, broadcast 10.99.0.255\n",
        "driver      veth, version 1.0\n",
        "queues      2 receive, 2 transmit, adapter 2 of 2 receive and 2 of 2 transmit\n",
        " dropped, 0 missed (no buffer), 0 overrun, 0 CRC, 0 frame, 0 FIFO",
        " collisions, 0 carrier",
        "engine      packet (AF_PACKET ring, both directions)\n",
        tcx,
        xdp,
        "engine      xsk (AF_XDP socket)\n",
        "any: all interfaces together\n    link type   LINUX_SLL2",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    let verbose = ringtap(&pair.left.namespace, &["-v", "veth0"]);
    let adapter = |text: &str| {
        text.lines()
            .filter(|line| line.contains("    adapter "))
            .count()
    };
    assert!(
        adapter(&verbose) > adapter(&text),
        "-v shows counters that are zero:\n{verbose}"
    );
}

fn hostile_names_harm_no_terminal() {
    let namespace = Namespace::new();
    let mut netlink = namespace.netlink();
    let default = LinkOptions::default();
    netlink
        .create("bridge", HOSTILE, &default)
        .expect("the kernel allows it");
    netlink
        .add_altname(HOSTILE, "alt\x1b[31m")
        .expect("the kernel allows it");
    let text = ringtap(&namespace, &[]);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    assert!(text.contains("\\x1b]0;x\\x07\\xff\\x9b2J"), "{text}");
    assert!(text.contains("alt\\x1b[31m"), "{text}");
    let devices = json(&namespace, &[]);
    let hex: String = HOSTILE.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(devices[1]["name_hex"], hex);
    assert_eq!(devices[1]["altnames"][0], "alt\x1b[31m");
    let index = devices[1]["index"].to_string();
    assert_eq!(
        json(&namespace, &[&index])[0]["name_hex"],
        hex,
        "chosen by its number"
    );
}

fn chosen_by_any_name() {
    let pair = network();
    let namespace = &pair.left.namespace;
    let index = find(&json(namespace, &[]), "veth0")["index"].to_string();
    for name in ["veth0", "short", "a-name-longer-than-fifteen-bytes", &index] {
        let devices = json(namespace, &[name]);
        assert_eq!(devices.len(), 1, "{name}");
        assert_eq!(devices[0]["name"], "veth0", "{name}");
    }
    let devices = json(namespace, &["any", "short", "lo", "veth0"]);
    let names: Vec<_> = devices
        .iter()
        .map(|device| device["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [Some("any"), Some("veth0"), Some("lo")],
        "as asked for, each once"
    );
}

fn failure(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn unknown_device() {
    let pair = VethPair::new();
    let mut command = pair.left.namespace.command(RINGTAP);
    let output = command
        .args(["devices", "eth\x1b9"])
        .output()
        .expect("started");
    let (code, error) = failure(&output);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("no such device: \"eth\\x1b9\"; devices are lo, veth0, any"),
        "{error}"
    );
    assert_eq!(output.stdout, b"");
}

fn ordinary_user() {
    let pair = VethPair::new();
    // Still root, but without its privileges: the program may lie where only root can go.
    let arguments = [
        "--bounding-set=-all",
        "--inh-caps=-all",
        RINGTAP,
        "devices",
        "--json",
    ];
    let output = pair.left.namespace.output("setpriv", &arguments);
    let devices: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let veth = find(devices.as_array().expect("an array"), "veth0").clone();
    let engine = &veth["engines"][0];
    assert_eq!(
        (&engine["engine"], &engine["usable"]),
        (&"packet".into(), &false.into())
    );
    let reason = engine["reason"].as_str().expect("a reason");
    assert!(reason.contains("CAP_NET_RAW"), "{reason}");
    assert_eq!(
        veth["driver"]["name"], "veth",
        "drivers may be asked by anybody"
    );
    assert_eq!(veth["unread"], Value::Array(Vec::new()));
}

fn reader_leaves() {
    let namespace = Namespace::new();
    let mut child = namespace
        .command(RINGTAP)
        .arg("devices")
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    assert!(child.wait().expect("ended").success());
}

fn ordinary_run() {
    let output = std::process::Command::new(RINGTAP)
        .arg("devices")
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("lo: "), "{text}");
}

/// Runs ringtap outside of all namespaces that the test made.
fn outside(arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(RINGTAP);
    let command = command.args(arguments).stdin(Stdio::null());
    command.output().expect("ringtap runs")
}

/// `--netns` lists and captures the devices of a namespace that a process or a path stands for.
fn another_namespace() {
    let pair = VethPair::new();
    let side = &pair.right;
    let mut sleep = side.namespace.command("sleep");
    let mut inside = sleep.arg("300").spawn().expect("sleep starts");
    let number = inside.id().to_string();
    let path = format!("/proc/{number}/ns/net");
    let expected = ringtap(&side.namespace, &["--json", &side.device]);
    let listed = [&number, &path].map(|netns| {
        let output = outside(&["devices", "--json", "--netns", netns, &side.device]);
        String::from_utf8(output.stdout).expect("UTF-8")
    });
    let socket = pair.left.run(|| UdpSocket::bind((pair.left.ipv4, 0)));
    let socket = socket.expect("a socket");
    let mut dump = std::process::Command::new(RINGTAP);
    dump.args(["dump", "-c", "2", "--netns", &number, "-i", &side.device]);
    let mut dump = Running::start_piped(dump.arg("udp port 7000")).expect("it starts");
    dump.wait_until_capturing(side, LIMIT).expect("it captures");
    for _ in 0..2 {
        let sent = socket.send_to(b"x", (side.ipv4, 7000));
        sent.expect("sent");
    }
    let captured = dump.wait(LIMIT).expect("it ends");
    let wrong = outside(&["dump", "--netns", "no-such", "-i", &side.device]);
    inside.kill().expect("killed");
    inside.wait().expect("an end");
    let name = |text: &str| {
        let value: Value = serde_json::from_str(text).expect("JSON");
        (value[0]["name"].clone(), value[0]["mac"].clone())
    };
    assert_eq!(
        listed.each_ref().map(|text| name(text)),
        [name(&expected), name(&expected)]
    );
    let lines = String::from_utf8_lossy(&captured.stdout).into_owned();
    assert_eq!(lines.lines().count(), 2, "{captured:?}");
    let reason = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(1), "{reason}");
    assert!(
        reason.contains("--netns no-such: open /run/netns/no-such"),
        "{reason}"
    );
}

/// `flow --netns` meters in a namespace that a process stands for, and writes its records here.
fn flows_of_another_namespace() {
    let pair = VethPair::new();
    let side = &pair.right;
    let mut sleep = side.namespace.command("sleep");
    let mut inside = sleep.arg("300").spawn().expect("sleep starts");
    let number = inside.id().to_string();
    let mut flow = std::process::Command::new(RINGTAP);
    flow.args(["flow", "--netns", &number, "-i", &side.device, "-w", "-"]);
    let mut flow = Running::start_piped(flow.arg("udp port 7000")).expect("it starts");
    flow.wait_until_capturing(side, LIMIT).expect("it captures");
    let socket = pair.left.run(|| UdpSocket::bind((pair.left.ipv4, 0)));
    let socket = socket.expect("a socket");
    for _ in 0..3 {
        let sent = socket.send_to(b"x", (side.ipv4, 7000));
        sent.expect("sent");
    }
    flow.signal("INT").expect("a signal");
    let metered = flow.wait(LIMIT).expect("it ends");
    inside.kill().expect("killed");
    inside.wait().expect("an end");
    let text = String::from_utf8_lossy(&metered.stdout).into_owned();
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(records.len(), 1, "{metered:?}");
    assert_eq!(records[0]["packets"], 3, "{text}");
}
