//! A program that runs first and takes packets away from a capture: the capture reports it, without a
//! privilege and without an option.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, patience, suite, test};
use serde_json::Value;

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself; a hang fails the test instead of stopping all.
const LIMIT: Duration = Duration::from_secs(60);
/// Time between two packets.
const PACE: Duration = Duration::from_millis(50);
const BLIND: &str = "sees no packets, but the interface receives them";
const AGAIN: &str = "sees packets again";

fn main() -> ExitCode {
    let tcx = &[Need::Root, Need::Tcx];
    // Elsewhere the captures are at clsact, and thieves at XDP only.
    let any = &[Need::Root, Need::Kernel(5, 18)];
    let dump = ["dump", "--json-stats", "-w"];
    suite(vec![
        test("a_capture_says_that_tcx_steals_from_it", tcx, move || {
            told(&dump, "tcx", &[]);
        }),
        test("a_capture_says_that_xdp_steals_from_it", any, move || {
            told(&dump, "xdp", &[]);
        }),
        test("a_filtered_capture_says_it", any, move || {
            told(&dump, "xdp", &["tcp port 443"]);
        }),
        test("flows_say_it", any, || {
            told(&["flow", "--top", "0", "--json-stats", "-w"], "xdp", &[]);
        }),
        test("flows_of_several_threads_say_it", any, || {
            let command = ["flow", "--threads", "2", "--top", "0", "--json-stats", "-w"];
            told(&command, "xdp", &[]);
        }),
        test("statistics_say_it", any, statistics),
        test("a_filtered_thief_at_tcx_is_reported", tcx, || {
            robbed(&["dump"], "tcx", "tcx", Ending::Asked);
        }),
        test("a_filtered_thief_at_xdp_is_reported", any, || {
            robbed(&["dump"], "tcx", "xdp", Ending::Asked);
        }),
        test("a_thief_by_af_xdp_is_reported", any, || {
            robbed(&["dump"], "tcx", "xsk", Ending::Asked);
        }),
        test("the_end_of_a_killed_thief_is_reported", any, || {
            robbed(&["dump"], "tcx", "xdp", Ending::Killed);
        }),
        test(
            "thieves_are_reported_to_flows_of_several_threads",
            any,
            || {
                let flow = ["flow", "--threads", "2", "--top", "0"];
                robbed(&flow, "tcx", "xdp", Ending::Asked);
            },
        ),
        test("thieves_are_reported_to_a_capture_on_any", any, || {
            robbed(&["dump"], "tcx:any", "xdp", Ending::Asked);
        }),
        test("a_thief_is_reported_to_statistics", any, robbed_statistics),
        test(
            "statistics_that_steal_are_reported",
            any,
            stealing_statistics,
        ),
        test("a_capture_at_xdp_has_no_thief_at_tcx", tcx, first_at_xdp),
        test("a_filter_that_takes_nothing_is_not_blind", any, rejects_all),
    ])
}

/// A program that runs, with its standard error in a file.
struct Watched {
    running: Running,
    notices: PathBuf,
}

impl Watched {
    fn start(mut command: Command, folder: &Path, name: &str) -> Self {
        let notices = folder.join(name);
        command.stdin(Stdio::null());
        command.stderr(std::fs::File::create(&notices).expect("a file"));
        let running = Running::start(&mut command).expect("ringtap starts");
        Self { running, notices }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.notices).expect("a file")
    }

    /// Sends packets both ways until the text is there.
    fn wait_for(&mut self, text: &str, wires: &Wires) {
        let deadline = Instant::now() + patience(LIMIT);
        while !self.text().contains(text) {
            assert!(!self.running.has_ended(), "{}", self.text());
            assert!(Instant::now() < deadline, "not told: {}", self.text());
            wires.send();
        }
    }

    fn process(&self) -> u32 {
        self.running.id()
    }

    fn kill(self) {
        self.running.signal("KILL").expect("it runs");
        let ended = self.running.wait(LIMIT).expect("it ends");
        assert!(!ended.status.success());
    }

    fn end(self) -> String {
        self.running.signal("INT").expect("it runs");
        let output = self.running.wait(LIMIT).expect("it ends");
        let text = std::fs::read_to_string(&self.notices).expect("a file");
        assert!(output.status.success(), "{text}");
        text
    }
}

/// Both ends of the cable, and what goes over it.
struct Wires {
    pair: VethPair,
    injectors: [Injector; 2],
    frame: Vec<u8>,
}

impl Wires {
    fn new() -> Self {
        let pair = VethPair::new();
        let open = |side: &Side| {
            let index = side.namespace.netlink().index(&side.device);
            let index = index.expect("it exists");
            side.run(|| Injector::open(index).expect("root"))
        };
        let injectors = [open(&pair.left), open(&pair.right)];
        let traffic = Traffic {
            packets: 1,
            ..Traffic::default()
        };
        let frame = traffic.frames().remove(0);
        Self {
            pair,
            injectors,
            frame,
        }
    }

    /// Sends one packet that the captured end receives, and one that it sends.
    fn send(&self) {
        for injector in &self.injectors {
            injector.send(&self.frame).expect("the end is up");
        }
        std::thread::sleep(PACE);
    }

    fn ringtap(&self, arguments: &[&str]) -> Command {
        let mut command = self.pair.right.namespace.command(RINGTAP);
        command.args(arguments).stdout(Stdio::null());
        command
    }

    fn device(&self, engine: &str) -> String {
        format!("{engine}{}", self.pair.right.device)
    }

    fn thief(&self, engine: &str, folder: &Path) -> Watched {
        let device = self.device(&format!("{engine}:"));
        let arguments = ["dump", "--mode", "steal", "-w", "/dev/null", "-i", &device];
        let mut thief = Watched::start(self.ringtap(&arguments), folder, "thief");
        thief.wait_for("capturing on", self);
        thief
    }
}

fn told(victim: &[&str], engine: &str, filter: &[&str]) {
    let wires = Wires::new();
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("victim.json");
    let device = wires.device("tcx:");
    let mut command = wires.ringtap(victim);
    command.arg(&written).args(["-i", &device]).args(filter);
    let mut victim = Watched::start(command, folder.path(), "victim");
    victim.wait_for("on ", &wires);
    let thief = wires.thief(engine, folder.path());
    victim.wait_for(BLIND, &wires);
    thief.end();
    victim.wait_for(AGAIN, &wires);
    let text = victim.end();
    assert_eq!(text.matches(BLIND).count(), 1, "{text}");
    assert_eq!(text.matches(AGAIN).count(), 1, "{text}");
    let stats: Value = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(|| panic!("{text}"));
    let missed = stats["dropped"]["before_hook"].as_u64().expect("a number");
    assert!(missed > 0, "{text}");
}

fn statistics() {
    let wires = Wires::new();
    let folder = tempfile::tempdir().expect("a folder");
    let device = wires.device("");
    let mut command = wires.ringtap(&["stat", "--json", "-i", &device]);
    let lines = folder.path().join("lines");
    command.stdout(std::fs::File::create(&lines).expect("a file"));
    let mut victim = Watched::start(command, folder.path(), "victim");
    victim.wait_for("counting on", &wires);
    assert!(victim.text().contains("all packets"), "{}", victim.text());
    let thief = wires.thief("xdp", folder.path());
    victim.wait_for(BLIND, &wires);
    thief.end();
    victim.wait_for(AGAIN, &wires);
    let text = victim.end();
    assert!(
        text.contains("packets not counted: taken before the hook"),
        "{text}"
    );
    let lines = std::fs::read_to_string(&lines).expect("a file");
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let missed: u64 = lines
        .map(|line| line["before_hook"].as_u64().expect("a number"))
        .sum();
    assert!(missed > 0, "{text}");
}

/// How a thief ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Asked,
    Killed,
}

const TAKES: &str = "takes the packets that its filter matches";
const GONE: &str = "is gone: packets reach this one again";

/// Starts a thief that takes the packets that match its filter, with that engine. No packet here does, so the
/// other capture cannot notice by itself.
fn start_filtered(wires: &Wires, engine: &str, folder: &Path) -> Watched {
    let device = wires.device(&format!("{engine}:"));
    let arguments = [
        "dump",
        "--mode",
        "steal",
        "-w",
        "/dev/null",
        "-i",
        &device,
        "icmp",
    ];
    let mut thief = Watched::start(wires.ringtap(&arguments), folder, "thief");
    thief.wait_for("capturing on", wires);
    thief
}

fn robbed(victim: &[&str], at: &str, engine: &str, ending: Ending) {
    let wires = Wires::new();
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("victim.json");
    let device = if at == "tcx:any" {
        at.to_owned()
    } else {
        wires.device(&format!("{at}:"))
    };
    let mut command = wires.ringtap(victim);
    command
        .args(["--json-stats", "-i", &device, "-w"])
        .arg(&written);
    let mut victim = Watched::start(command, folder.path(), "victim");
    victim.wait_for("on ", &wires);
    let mut thief = start_filtered(&wires, engine, folder.path());
    thief.wait_for(&format!("process {}", victim.process()), &wires);
    let process = thief.process();
    victim.wait_for(TAKES, &wires);
    match ending {
        Ending::Asked => drop(thief.end()),
        Ending::Killed => thief.kill(),
    }
    victim.wait_for(GONE, &wires);
    let text = victim.end();
    assert_eq!(text.matches(TAKES).count(), 1, "{text}");
    assert_eq!(text.matches(GONE).count(), 1, "{text}");
    assert!(
        text.contains(&format!("(process {process}) takes")),
        "{text}"
    );
    let stats: Value = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(|| panic!("{text}"));
    let missed = &stats["dropped"]["before_hook"];
    assert!(missed.is_null(), "nobody knows how many: {text}");
}

fn robbed_statistics() {
    let wires = Wires::new();
    let folder = tempfile::tempdir().expect("a folder");
    let device = wires.device("tcx:");
    let command = wires.ringtap(&["stat", "--json", "-i", &device]);
    let mut victim = Watched::start(command, folder.path(), "victim");
    victim.wait_for("counting on", &wires);
    let thief = start_filtered(&wires, "xdp", folder.path());
    victim.wait_for(TAKES, &wires);
    thief.end();
    victim.wait_for(GONE, &wires);
    victim.end();
}

fn stealing_statistics() {
    let wires = Wires::new();
    let folder = tempfile::tempdir().expect("a folder");
    let device = wires.device("tcx:");
    let command = ["dump", "-w", "/dev/null", "-i", &device];
    let mut victim = Watched::start(wires.ringtap(&command), folder.path(), "victim");
    victim.wait_for("capturing on", &wires);
    let device = wires.device("xdp:");
    let command = ["stat", "--mode", "steal", "-i", &device, "icmp"];
    let mut thief = Watched::start(wires.ringtap(&command), folder.path(), "thief");
    thief.wait_for(&format!("process {}", victim.process()), &wires);
    victim.wait_for(TAKES, &wires);
    thief.end();
    victim.wait_for(GONE, &wires);
    victim.end();
}

/// Packets reach XDP before tcx.
fn first_at_xdp() {
    let wires = Wires::new();
    let folder = tempfile::tempdir().expect("a folder");
    let device = wires.device("xdp:");
    let command = ["dump", "-w", "/dev/null", "-i", &device];
    let mut first = Watched::start(wires.ringtap(&command), folder.path(), "first");
    first.wait_for("capturing on", &wires);
    let thief = start_filtered(&wires, "tcx", folder.path());
    let begun = Instant::now();
    // Several looks.
    while begun.elapsed() < Duration::from_secs(3) {
        wires.send();
    }
    let text = thief.end();
    assert!(
        !text.contains(&format!("process {}", first.process())),
        "{text}"
    );
    let text = first.end();
    assert!(!text.contains(TAKES), "{text}");
}

/// Packets that the filter does not take come all the same.
fn rejects_all() {
    let wires = Wires::new();
    let folder = tempfile::tempdir().expect("a folder");
    let device = wires.device("tcx:");
    let command = ["dump", "-w", "/dev/null", "-i", &device, "tcp port 1"];
    let mut capture = Watched::start(wires.ringtap(&command), folder.path(), "capture");
    capture.wait_for("capturing on", &wires);
    let begun = Instant::now();
    // Several looks.
    while begun.elapsed() < Duration::from_secs(7) {
        wires.send();
    }
    let text = capture.end();
    assert!(!text.contains(BLIND), "{text}");
}
