//! Every kind of network device that Linux makes without hardware, and adapters that QEMU emulates, under
//! every engine: what ringtap captures on it is what tcpdump on the system's libpcap captures at the same
//! time.

mod exchange;
mod faults;
mod topology;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use ringtap_testkit::netns::Side;
use ringtap_testkit::pcap::Pcap;
use ringtap_testkit::process::Running;
use ringtap_testkit::{Test, suite, test};

use faults::promiscuity;
use topology::{Hosts, KINDS, Kind, Peer};

pub(crate) const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself; a hang fails the test instead of stopping all.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// Datagrams of each capture.
const DATAGRAMS: usize = 60;
const ENGINES: [&str; 3] = ["packet", "tcx", "xdp"];

fn main() -> ExitCode {
    let mut tests: Vec<Test> = Vec::new();
    for kind in KINDS {
        let needs = kind.needs();
        if needs.iter().any(|need| need.unmet().is_some()) {
            // One skip, not one for each of its tests.
            tests.push(test(kind.name, &needs, || {}));
            continue;
        }
        let mut of_kind: Vec<Test> = Vec::new();
        for engine in ENGINES {
            let name = format!("{}_{engine}_delivers_what_tcpdump_delivers", kind.name);
            of_kind.push(test(name, &needs, move || delivers(kind, engine)));
        }
        of_kind.extend(faults::tests(kind));
        if kind.adapter.is_some() {
            // A machine has two of them.
            tests.extend(of_kind.into_iter().map(Test::serial));
        } else {
            tests.extend(of_kind);
        }
    }
    suite(tests)
}

/// An engine that is listed as working captures what tcpdump captures, and leaves promiscuous mode as it was. Another one
/// says why it does not work, in one line.
fn delivers(kind: &Kind, engine: &str) -> Result<(), String> {
    let hosts = Hosts::new(kind);
    exchange::wait_until_joined(&hosts, kind);
    if let Some(reason) = Listed::new(&hosts, kind).unusable(engine) {
        return refused(&hosts, kind, engine, &reason);
    }
    let before = promiscuity(&hosts.left, kind.device);
    same_traffic(&hosts, kind, engine)?;
    match promiscuity(&hosts.left, kind.device) {
        after if after == before => Ok(()),
        after => Err(format!("promiscuity was {before}, is {after}")),
    }
}

/// Datagrams under `udp port 7777`, frame by frame, then a transfer by TCP, byte by byte.
fn same_traffic(hosts: &Hosts, kind: &Kind, engine: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    if engine == "xdp" && kind.hides_tags() {
        return without_tags(hosts, kind, folder.path());
    }
    let direction = if engine == "xdp" { "in" } else { "inout" };
    let filter = filter(kind, "udp", engine);
    let (theirs, ours) = both(
        hosts,
        kind,
        engine,
        direction,
        &filter,
        folder.path(),
        || {
            exchange::datagrams(hosts, kind, DATAGRAMS);
        },
    );
    let expected = match (engine, kind.peer) {
        // XDP sees only received packets.
        ("xdp", Peer::Across) => DATAGRAMS,
        ("xdp", Peer::Nobody) => 0,
        // Packets from a host to itself are seen once, coming in.
        (_, Peer::Across | Peer::Itself) => 2 * DATAGRAMS,
        (_, Peer::Nobody) => DATAGRAMS,
    };
    same_frames(&theirs, &ours, expected)?;
    if engine == "xdp" || kind.peer != Peer::Across {
        return Ok(());
    }
    let filter = self::filter(kind, "tcp", engine);
    let (theirs, ours) = both(
        hosts,
        kind,
        engine,
        direction,
        &filter,
        folder.path(),
        || {
            exchange::stream(hosts, kind);
        },
    );
    let (theirs, ours) = (transferred(&theirs), transferred(&ours));
    if theirs == ours && ours >= exchange::TRANSFERRED {
        Ok(())
    } else {
        Err(format!("bytes of TCP: tcpdump {theirs}, ringtap {ours}"))
    }
}

/// No program at XDP sees a tag that the driver has taken out of the packet ([`Kind::hides_tags`]). The capture says so,
/// and has the packets without it.
fn without_tags(hosts: &Hosts, kind: &Kind, folder: &Path) -> Result<(), String> {
    let file = folder.join("ours.pcap");
    let device = format!("xdp:{}", kind.device);
    let filter = filter(kind, "udp", "xdp");
    let running = capture(hosts, &device, "in", &file, &filter);
    exchange::datagrams(hosts, kind, DATAGRAMS);
    let text = end(running)?;
    let captured = frames(&file).1.len();
    if captured == DATAGRAMS && text.contains("takes VLAN tags out of packets") {
        Ok(())
    } else {
        Err(format!("{captured} of {DATAGRAMS} frames: {text}"))
    }
}

/// Returns the filter for a protocol, as a parent device needs it.
fn filter(kind: &Kind, protocol: &str, engine: &str) -> String {
    let plain = format!("{protocol} port {}", exchange::PORT);
    let hides_tag = engine == "xdp" && kind.hides_tags();
    match kind.name {
        // The outer tag is the one that can be beside the packet.
        name if name.ends_with("qinq_parent") && hides_tag => format!("vlan 5 and {plain}"),
        name if name.ends_with("qinq_parent") => format!("vlan 7 and vlan 5 and {plain}"),
        name if name.ends_with("vlan_parent") && !hides_tag => format!("vlan 5 and {plain}"),
        "vxlan_parent" => {
            let number = if protocol == "udp" { 17 } else { 6 };
            // After the headers of UDP and VXLAN: the inner frame's type, its IP header's protocol.
            format!("udp port 4789 and udp[28:2] = 0x0800 and udp[39] = {number}")
        }
        _ => plain,
    }
}

/// The engines of a device in `ringtap devices`.
pub(crate) struct Listed(serde_json::Value);

impl Listed {
    pub(crate) fn new(hosts: &Hosts, kind: &Kind) -> Self {
        let output = hosts
            .left
            .namespace
            .output(RINGTAP, &["devices", kind.device, "--json"]);
        Self(serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    /// Returns the reason why an engine does not work on the device. `None` if it does.
    pub(crate) fn unusable(&self, engine: &str) -> Option<String> {
        let engines = self.0[0]["engines"].as_array().expect("a list of engines");
        let entry = engines.iter().find(|entry| entry["engine"] == engine);
        let entry = entry.unwrap_or_else(|| panic!("{engine} is not listed"));
        (entry["usable"] != true).then(|| entry["reason"].to_string())
    }
}

/// An engine that is said not to work must say the same when it is asked for: in one line.
fn refused(hosts: &Hosts, kind: &Kind, engine: &str, reason: &str) -> Result<(), String> {
    let device = format!("{engine}:{}", kind.device);
    let mut command = hosts.left.namespace.command(RINGTAP);
    let running = Running::start_piped(command.args(["dump", "-c", "1", "-i", &device]))
        .map_err(|error| error.to_string())?;
    let output = running
        .wait(LIMIT)
        .map_err(|error| format!("listed as {reason}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || text.lines().count() != 1 {
        return Err(format!("listed as {reason}; {}: {text}", output.status));
    }
    Ok(())
}

/// Starts `ringtap dump` on a device of the left host and waits until it captures.
pub(crate) fn capture(
    hosts: &Hosts,
    device: &str,
    direction: &str,
    to: &Path,
    filter: &str,
) -> Running {
    let mut command = hosts.left.namespace.command(RINGTAP);
    command
        .args(["dump", "-s2000", "-i", device, "-Q", direction, "-w"])
        .arg(to)
        .arg(filter);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    let side = Side {
        device: device.rsplit(':').next().unwrap_or(device).to_owned(),
        ..hosts.left.clone()
    };
    running
        .wait_until_capturing(&side, LIMIT)
        .unwrap_or_else(|error| panic!("{device}: {error}"));
    running
}

/// Ends a capture as Ctrl-C does. Returns its standard error.
pub(crate) fn end(running: Running) -> Result<String, String> {
    running.signal("INT").map_err(|error| error.to_string())?;
    let output = running.wait(LIMIT).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{}: {text}", output.status))
    }
}

/// Captures by tcpdump and by ringtap while something happens.
fn both(
    hosts: &Hosts,
    kind: &Kind,
    engine: &str,
    direction: &str,
    filter: &str,
    folder: &Path,
    happens: impl FnOnce(),
) -> (PathBuf, PathBuf) {
    let (theirs, ours) = (folder.join("theirs.pcap"), folder.join("ours.pcap"));
    let mut command: Command = hosts.left.namespace.command("tcpdump");
    command.args([
        "-Z",
        "root",
        "-U",
        // In this mode, a slot of its ring is so large that few fit otherwise.
        "--immediate-mode",
        "-s2000",
        "-B",
        "65536",
        "-Q",
        direction,
        "-i",
        kind.device,
        "-w",
    ]);
    command.arg(&theirs).arg(filter);
    let mut tcpdump = Running::start_piped(&mut command).expect("tcpdump starts");
    tcpdump
        .wait_until_told("listening on", LIMIT)
        .unwrap_or_else(|error| panic!("{error}"));
    let device = format!("{engine}:{}", kind.device);
    let running = capture(hosts, &device, direction, &ours, filter);
    happens();
    // tcpdump throws away what waits in its ring when it is interrupted.
    tcpdump.wait_until_resting(LIMIT).expect("tcpdump rests");
    end(tcpdump).expect("tcpdump ends");
    end(running).expect("ringtap ends");
    (theirs, ours)
}

/// The headers that libpcap and ringtap make for packets without a link type, LINUX_SLL and LINUX_SLL2, and
/// their lengths in bytes. They say the same in other places.
const MADE_HEADERS: [(u32, usize); 2] = [(113, 16), (276, 20)];

/// Returns the link type, and every frame's length and bytes, in an order that both share. A header that was
/// made is left out.
fn frames(path: &Path) -> (u32, Vec<(u32, Vec<u8>)>) {
    let bytes = std::fs::read(path).expect("a capture");
    let pcap = Pcap::parse(&bytes).expect("a pcap file");
    let made = MADE_HEADERS.iter().find(|made| made.0 == pcap.link_type);
    let made = made.map_or(0, |made| made.1);
    let mut frames: Vec<_> = pcap
        .records()
        .map(|record| record.expect("a whole record"))
        .map(|record| {
            let len = record.len as usize - made;
            (
                u32::try_from(len).expect("a length"),
                record.data[made..].to_vec(),
            )
        })
        .collect();
    frames.sort();
    (if made > 0 { 0 } else { pcap.link_type }, frames)
}

fn same_frames(theirs: &Path, ours: &Path, expected: usize) -> Result<(), String> {
    let ((their_type, theirs), (our_type, ours)) = (frames(theirs), frames(ours));
    if their_type != our_type {
        return Err(format!(
            "link types: tcpdump {their_type}, ringtap {our_type}"
        ));
    }
    if (theirs.len(), ours.len()) != (expected, expected) {
        let counts = format!("tcpdump {}, ringtap {}", theirs.len(), ours.len());
        return Err(format!("{expected} frames were expected: {counts}"));
    }
    match theirs.iter().zip(&ours).find(|(one, other)| one != other) {
        Some((one, other)) => Err(format!("tcpdump {one:02x?}\nringtap {other:02x?}")),
        None => Ok(()),
    }
}

/// Returns the bytes that TCP carries in a capture, as tcpdump counts them.
fn transferred(path: &Path) -> usize {
    let output = Command::new(ringtap_testkit::need::find_tool("tcpdump").expect("tcpdump"))
        .args(["-nn", "-r"])
        .arg(path)
        .output()
        .expect("tcpdump runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lengths = text.lines().filter_map(|line| {
        let (_, rest) = line.rsplit_once("length ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().ok()
    });
    lengths.sum()
}
