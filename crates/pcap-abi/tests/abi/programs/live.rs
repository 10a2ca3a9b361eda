//! Programs that capture, or send, on an interface.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringtap_testkit::netns::{VethOptions, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, Test, test};

use super::stage::{
    PACKETS, Stage, fingerprint, lines, same, same_but_for_versions, talk, text, traffic,
};
use crate::library::LIMIT;

/// The needs of tests with taps.
const ENGINES: [Need; 4] = [
    Need::Root,
    Need::Tool("tcpreplay"),
    Need::Tool("tcpdump"),
    Need::Kernel(6, 6),
];

/// The needs of a test whose result depends on the version of Debian's library.
const LISTS: [Need; 4] = [
    Need::Root,
    Need::LibpcapDev,
    Need::Tool("cc"),
    Need::Tool("tcpdump"),
];

pub(super) fn tests() -> Vec<Test> {
    vec![
        test("programs::tcpdump_lists", &LISTS, || {
            same_but_for_versions("tcpdump_lists", tcpdump_lists)
        }),
        live("tcpdump_captures", "tcpdump", tcpdump_captures),
        live(
            "tcpdump_captures_on_any",
            "tcpdump",
            tcpdump_captures_on_any,
        ),
        test(
            "programs::tcpdump_captures_by_every_engine",
            &ENGINES,
            || same(tcpdump_by_every_engine),
        ),
        live("tcpdump_chooses_directions", "tcpdump", tcpdump_directions),
        live("tcpdump_rotates_by_time", "tcpdump", tcpdump_rotates),
        live("dumpcap_lists", "dumpcap", dumpcap_lists),
        live("dumpcap_captures", "dumpcap", dumpcap_captures),
        live("tshark_captures", "tshark", tshark_captures),
        live("ngrep_captures", "ngrep", ngrep_captures),
        live("tcpreplay_sends", "tcpreplay", tcpreplay_sends),
        live("iftop_watches", "iftop", iftop_watches),
    ]
}

fn live(name: &str, program: &'static str, scenario: fn(&Stage) -> String) -> Test {
    let needs = [Need::Root, Need::Tool("tcpreplay"), Need::Tool(program)];
    test(format!("programs::{name}"), &needs, move || same(scenario))
}

/// Returns whether a line is not about a device that only Debian's library has.
fn is_of_the_network(line: &str) -> bool {
    let others = ["bluetooth", "nflog", "nfqueue", "dbus", "usbmon"];
    !others.iter().any(|other| line.contains(other))
}

fn tcpdump_lists(stage: &Stage) -> String {
    let pair = VethPair::new();
    let mut seen = String::new();
    for options in [&["-D"][..], &["-L", "-i", "veth0"], &["-L", "-i", "any"]] {
        let mut command = stage.command_on(&pair.left, "tcpdump");
        seen += &stage.both(command.args(options));
    }
    lines(&seen, is_of_the_network)
}

/// Returns packets and bytes of a capture file, without times, which differ from run to run.
fn summary(file: &str, stage: &Stage) -> String {
    let mut command = Command::new("tcpdump");
    command
        .args(["-nn", "-t", "-e", "-x", "-r"])
        .arg(stage.path(file));
    crate::library::text_of(&mut command)
}

fn tcpdump_captures(stage: &Stage) -> String {
    let all = PACKETS.to_string();
    let mut seen = String::new();
    for options in [
        &["-c", &all][..],
        // Debian's library has room for only 8 packets there, unless they are short.
        &["-c", &all, "--immediate-mode", "-l", "-s", "1600"],
        &["-c", &all, "-j", "host", "-s", "80", "-p"],
        &["-c", &all, "-B", "4096", "--time-stamp-precision=nano"],
        &["-c", "20", "tcp port 443 and greater 200"],
        &["-c", &all, "-U", "-w", "written", "-Z", "root"],
    ] {
        let pair = VethPair::new();
        let mut command = stage.command_on(&pair.left, "tcpdump");
        command
            .args(["-i", "veth0", "-nn", "-t", "-e"])
            .args(options);
        let output = stage.capture(&pair, &mut command);
        seen += &text(&output.stdout);
        // Programs differ in counting packets that arrived between the last packet and the end.
        seen += &lines(&text(&output.stderr), |line| {
            !line.contains("received by filter")
        });
    }
    seen + &summary("written", stage)
}

/// Captures with the same tcpdump and another engine, chosen by the device's name or the environment. Its
/// output must equal that with Debian's library, which has only one engine.
fn tcpdump_by_every_engine(stage: &Stage) -> String {
    let mut seen = String::new();
    for (device, variable) in [
        ("tcx:veth0", None),
        ("xdp:veth0", None),
        ("veth0", Some("tcx")),
        ("veth0", Some("auto")),
        // The environment does not override a name with an engine.
        ("packet:veth0", Some("xdp")),
    ] {
        let pair = VethPair::new();
        let mut command = stage.command_on(&pair.left, "tcpdump");
        let device = if stage.is_ringtap() { device } else { "veth0" };
        command.envs(variable.map(|engine| ("RINGTAP_ENGINE", engine)));
        command.args(["-i", device, "-nn", "-t", "-e", "-c", "50", "udp"]);
        let output = stage.capture(&pair, &mut command);
        let listening = text(&output.stderr).contains(&format!("listening on {device}, "));
        seen += &format!("{listening}\n{}", text(&output.stdout));
    }
    seen
}

fn tcpdump_captures_on_any(stage: &Stage) -> String {
    let pair = VethPair::new();
    let mut command = stage.command_on(&pair.left, "tcpdump");
    command.args(["-i", "any", "-nn", "-t", "-e", "-c", "200"]);
    let mut running = Running::start_piped(&mut command).expect("tcpdump starts");
    let ready = running.wait_until_capturing_any(&pair.left, LIMIT);
    ready.expect("tcpdump captures");
    running.wait_until_resting(LIMIT).expect("tcpdump waits");
    stage.send(&pair.right);
    let output = running.wait(LIMIT).expect("tcpdump ends");
    text(&output.stdout)
}

fn tcpdump_directions(stage: &Stage) -> String {
    let mut seen = String::new();
    for direction in ["in", "out", "inout"] {
        let pair = VethPair::new();
        let mut command = stage.command_on(&pair.left, "tcpdump");
        command.args(["-i", "veth0", "-nn", "-t", "-l", "-Q", direction]);
        let path = stage.path("lines");
        let lines_of = || std::fs::read_to_string(&path).expect("what tcpdump prints");
        let out = std::fs::File::create(&path).expect("a file");
        command.stdin(Stdio::null()).stdout(out);
        let running = Running::start(command.stderr(Stdio::piped()));
        let mut running = running.expect("tcpdump starts");
        let ready = running.wait_until_capturing(&pair.left, LIMIT);
        ready.expect("tcpdump captures");
        running.wait_until_resting(LIMIT).expect("tcpdump waits");
        talk(&pair, 5);
        // Its read timeout is a second; each datagram is answered by an error.
        let due = if direction == "inout" { 10 } else { 5 };
        for _ in 0..500 {
            if lines_of().lines().count() >= due {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        running.signal("INT").expect("tcpdump can be interrupted");
        let output = running.wait(LIMIT).expect("tcpdump ends");
        seen += &format!("{direction}: {:?}\n{}", output.status.code(), lines_of());
        // Debian's library also counts packets of the other direction, and drops them in the
        // program.
        seen += &lines(&text(&output.stderr), |line| {
            !line.contains("received by filter")
        });
    }
    seen
}

fn tcpdump_rotates(stage: &Stage) -> String {
    let pair = VethPair::new();
    let mut command = stage.command_on(&pair.left, "tcpdump");
    command.args([
        "-i", "veth0", "-w", "part-%s", "-G", "1", "-W", "2", "-Z", "root",
    ]);
    let mut running = Running::start_piped(&mut command).expect("tcpdump starts");
    let ready = running.wait_until_capturing(&pair.left, LIMIT);
    ready.expect("tcpdump captures");
    running.wait_until_resting(LIMIT).expect("tcpdump waits");
    // A file is closed by the first packet after its time.
    talk(&pair, 300);
    let output = running.wait(LIMIT).expect("tcpdump ends");
    let parts = std::fs::read_dir(stage.folder())
        .expect("the folder")
        .flatten();
    let parts = parts.filter(|entry| entry.file_name().to_string_lossy().starts_with("part-"));
    format!("{:?}, {} files\n", output.status.code(), parts.count())
}

fn dumpcap_lists(stage: &Stage) -> String {
    let pair = VethPair::new();
    let mut seen = String::new();
    for options in [
        &["-D"][..],
        &["-D", "-M"],
        &["-L", "-i", "veth0"],
        &["-d", "-i", "veth0", "-f", "tcp port 80"],
    ] {
        let mut command = stage.command_on(&pair.left, "dumpcap");
        seen += &stage.both(command.args(options));
    }
    // With -M, version 4.4 prints an array in one line; each device needs its own.
    let seen = seen.replace("[{", "{").replace("}}]", "}}");
    lines(&seen.replace("}},{", "}}\n{"), is_of_the_network)
}

fn dumpcap_captures(stage: &Stage) -> String {
    let mut seen = String::new();
    for (name, options) in [
        ("all.pcap", &["-c", "200", "-P"][..]),
        (
            "some.pcap",
            &["-c", "20", "-P", "-f", "udp and greater 100", "-s", "90"],
        ),
        ("ng.pcapng", &["-c", "200", "-p", "-B", "4"]),
    ] {
        let pair = VethPair::new();
        let mut command = stage.command_on(&pair.left, "dumpcap");
        command
            .args(["-q", "-i", "veth0", "-w", name])
            .args(options);
        stage.capture(&pair, &mut command);
        seen += &summary(name, stage);
    }
    seen
}

fn tshark_captures(stage: &Stage) -> String {
    let pair = VethPair::new();
    let mut command = stage.command_on(&pair.left, "tshark");
    command.args([
        "-i",
        "veth0",
        "-n",
        "-c",
        "50",
        "-f",
        "ip and greater 100",
        "-T",
        "fields",
    ]);
    for field in [
        "frame.len",
        "ip.src",
        "ip.dst",
        "udp.dstport",
        "tcp.dstport",
    ] {
        command.args(["-e", field]);
    }
    text(&stage.capture(&pair, &mut command).stdout)
}

fn ngrep_captures(stage: &Stage) -> String {
    let pair = VethPair::new();
    let mut command = stage.command_on(&pair.left, "ngrep");
    command.args(["-q", "-d", "veth0", "-n", "20", "-x", "", "udp"]);
    text(&stage.capture(&pair, &mut command).stdout)
}

/// Returns the packets that the other end receives; Debian's library captures them in both runs.
fn tcpreplay_sends(stage: &Stage) -> String {
    let pair = VethPair::new();
    let file = traffic(stage.folder());
    let mut watcher = pair.left.namespace.command("tcpdump");
    watcher.args([
        "-i",
        "veth0",
        "-nn",
        "-t",
        "-e",
        "-x",
        "-c",
        &PACKETS.to_string(),
    ]);
    watcher.env_remove("LD_LIBRARY_PATH");
    let mut watcher = Running::start_piped(&mut watcher).expect("tcpdump starts");
    let ready = watcher.wait_until_capturing(&pair.left, LIMIT);
    ready.expect("tcpdump captures");
    watcher.wait_until_resting(LIMIT).expect("tcpdump waits");
    let mut command = stage.command_on(&pair.right, "tcpreplay");
    command.args(["--intf1=veth1", "--pps=5000", "--loop=1", "--preload-pcap"]);
    let sent = stage.stdout(command.arg(&file));
    let seen = text(&watcher.wait(LIMIT).expect("tcpdump ends").stdout);
    lines(&sent, |line| line.contains("packets:")) + &seen + &fingerprint(&file)
}

/// Rates differ from run to run; the addresses do not.
fn iftop_watches(stage: &Stage) -> String {
    let pair = VethPair::with(&VethOptions::default());
    let mut command = stage.command_on(&pair.left, "iftop");
    command.args(["-t", "-s", "3", "-i", "veth0", "-n", "-N", "-P", "-L", "5"]);
    let mut running = Running::start_piped(&mut command).expect("iftop starts");
    let ready = running.wait_until_capturing(&pair.left, LIMIT);
    ready.expect("iftop captures");
    // Its clock advances only with packets.
    for _ in 0..40 {
        if running.has_ended() {
            break;
        }
        talk(&pair, 50);
    }
    let output = running.wait(LIMIT).expect("iftop ends");
    let seen = text(&output.stdout);
    let is_talker = |word: &&str| word.contains(":4000") || word.contains(":5000");
    let talkers: BTreeSet<&str> = seen.split_whitespace().filter(is_talker).collect();
    format!(
        "{talkers:?}, {} reports\n",
        seen.matches("Peak rate").count()
    )
}
