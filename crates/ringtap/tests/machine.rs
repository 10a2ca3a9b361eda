//! Captures in machines of their own (`cargo xtask kernels`): processors that go and come, several NUMA
//! nodes, little memory.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ringtap_sys::sched::{online_cpus, set_affinity};
use ringtap_testkit::netns::{VethOptions, VethPair};
use ringtap_testkit::pcap::Pcap;
use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, Test, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself; a hang fails the test instead of stopping all.
const LIMIT: Duration = Duration::from_secs(60);
/// The engines, with the kernels that have them.
const ENGINES: [(&str, Need); 3] = [
    ("packet", Need::Kernel(5, 10)),
    ("tcx", Need::Kernel(5, 12)),
    ("xdp", Need::Kernel(5, 18)),
];
const PORT: u16 = 7777;
/// Datagrams that each processor sends at a time.
const EACH: u32 = 50;

fn main() -> ExitCode {
    let two = [Need::Root, Need::OwnMachine, Need::Processors(2)];
    let nodes = [Need::Root, Need::Processors(2), Need::NumaNodes(2)];
    let own = [Need::Root, Need::OwnMachine];
    let mut tests: Vec<Test> = Vec::new();
    for (engine, kernel) in ENGINES {
        let mut add = |name: &str, needs: &[Need], body: fn(&'static str) -> Result<(), String>| {
            let name = format!("{engine}_{name}");
            let needs = [needs, &[kernel]].concat();
            tests.push(test(name, &needs, move || body(engine)).serial());
        };
        add("goes_on_while_a_processor_is_away", &two, away);
        add("takes_packets_of_a_processor_that_came_later", &two, later);
        add("takes_packets_on_all_nodes", &nodes, on_nodes);
        add("makes_do_with_the_memory_there_is", &own, little_memory);
    }
    let name = "stat_counts_while_a_processor_is_away";
    tests.push(test(name, &two, counted_away).serial());
    suite(tests)
}

/// The processor that is switched off: the last one. The first cannot be.
fn last() -> usize {
    let cpus = online_cpus().expect("there are some");
    *cpus.as_slice().last().expect("there is one")
}

/// A processor that is switched off, and on again at the end.
struct Away(PathBuf);

impl Away {
    fn new(cpu: usize) -> Self {
        let file = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        fs::write(&file, "0").unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self(file)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        // A test that has failed may have ended for this reason.
        let _ = fs::write(&self.0, "1");
    }
}

/// Traffic between two namespaces, numbered.
struct Traffic {
    pair: VethPair,
    socket: UdpSocket,
    sent: u32,
}

impl Traffic {
    fn new() -> Self {
        let pair = VethPair::with(&VethOptions {
            queues: None,
            ..VethOptions::default()
        });
        let (left, right) = (pair.left.ipv4, pair.right.ipv4);
        let socket = pair.left.run(|| {
            let socket = UdpSocket::bind((left, PORT)).expect("a socket");
            socket.connect((right, PORT)).expect("a peer");
            socket
        });
        Self {
            pair,
            socket,
            sent: 0,
        }
    }

    /// Sends from each processor that is online.
    fn send(&mut self) {
        let cpus = online_cpus().expect("there are some");
        std::thread::scope(|scope| {
            for &cpu in cpus.as_slice() {
                let first = self.sent;
                let socket = &self.socket;
                let sends = scope.spawn(move || {
                    set_affinity(&[cpu]).expect("it is online");
                    for number in first..first + EACH {
                        // An answer that nobody takes the port is an error of the next datagram.
                        while socket.send(&number.to_be_bytes()).is_err() {}
                    }
                });
                sends.join().expect("no panic");
                self.sent += EACH;
            }
        });
    }

    /// Starts a capture of what the right side receives.
    fn capture(&self, engine: &str, to: &Path, options: &[&str]) -> Result<Running, String> {
        let side = &self.pair.right;
        let device = format!("{engine}:{}", side.device);
        let mut command = side.namespace.command(RINGTAP);
        command
            .args(["dump", "-Q", "in", "-i", &device, "-w"])
            .arg(to)
            .args(options)
            .arg(format!("udp dst port {PORT}"));
        let mut running = Running::start_piped(&mut command).map_err(|error| error.to_string())?;
        let capturing = running.wait_until_capturing(side, LIMIT);
        capturing.map_err(|error| format!("{device}: {error}"))?;
        Ok(running)
    }

    /// Ends a capture, in which each datagram must be once.
    fn check(&self, running: Running, file: &Path) -> Result<(), String> {
        running
            .signal("INT")
            .and_then(|()| running.wait(LIMIT))
            .map_err(|error| error.to_string())
            .and_then(|output| {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                let numbers = numbers(file)?;
                let twice = numbers.values().filter(|&&count| count > 1).count();
                if output.status.success() && numbers.len() == self.sent as usize && twice == 0 {
                    Ok(())
                } else {
                    let found = numbers.len();
                    let sent = self.sent;
                    Err(format!(
                        "{found} of {sent} datagrams, {twice} twice: {text}"
                    ))
                }
            })
    }
}

/// How often each datagram is in a capture.
fn numbers(file: &Path) -> Result<BTreeMap<u32, u32>, String> {
    let bytes = fs::read(file).map_err(|error| error.to_string())?;
    let pcap = Pcap::parse(&bytes).map_err(|error| format!("{error:?}"))?;
    let mut numbers = BTreeMap::new();
    for record in pcap.records() {
        let record = record.map_err(|error| format!("{error:?}"))?;
        let end = record.data.get(42..46);
        let number = end.and_then(|bytes| bytes.try_into().ok());
        let number = number.map(u32::from_be_bytes);
        *numbers.entry(number.ok_or("no datagram")?).or_default() += 1;
    }
    Ok(numbers)
}

/// A processor goes and comes back during a capture.
fn away(engine: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("capture.pcap");
    let mut traffic = Traffic::new();
    let running = traffic.capture(engine, &file, &[])?;
    traffic.send();
    let gone = Away::new(last());
    traffic.send();
    drop(gone);
    traffic.send();
    traffic.check(running, &file)
}

/// A processor comes that was not there when the capture was opened.
fn later(engine: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("capture.pcap");
    let mut traffic = Traffic::new();
    let gone = Away::new(last());
    let running = traffic.capture(engine, &file, &[])?;
    traffic.send();
    drop(gone);
    traffic.send();
    traffic.check(running, &file)
}

/// Processors of several nodes receive.
fn on_nodes(engine: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("capture.pcap");
    let mut traffic = Traffic::new();
    let running = traffic.capture(engine, &file, &[])?;
    for _ in 0..3 {
        traffic.send();
    }
    traffic.check(running, &file)
}

/// More memory is asked for than the machine has: the capture takes less, or is refused in one line.
fn little_memory(engine: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("capture.pcap");
    let mut traffic = Traffic::new();
    match traffic.capture(engine, &file, &["--buffer", "64G"]) {
        Ok(running) => {
            traffic.send();
            traffic.check(running, &file)
        }
        Err(refusal) if refusal.lines().count() == 1 && !refusal.contains("does not capture") => {
            Ok(())
        }
        Err(refusal) => Err(refusal),
    }
}

/// Filters are counted on all processors, also on one that was away.
fn counted_away() -> Result<(), String> {
    let mut traffic = Traffic::new();
    let side = traffic.pair.right.clone();
    let device = format!("tcx:{}", side.device);
    let mut command = side.namespace.command(RINGTAP);
    command.args(["stat", "--json", "-i", &device, "-Q", "in"]);
    command.arg(format!("udp dst port {PORT}"));
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    let capturing = running.wait_until_capturing(&side, LIMIT);
    capturing.map_err(|error| error.to_string())?;
    traffic.send();
    let gone = Away::new(last());
    traffic.send();
    drop(gone);
    traffic.send();
    running.signal("INT").map_err(|error| error.to_string())?;
    let output = running.wait(LIMIT).map_err(|error| error.to_string())?;
    let mut counted = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        counted += line["filters"][0]["packets"].as_u64().unwrap_or(0);
    }
    if counted == u64::from(traffic.sent) {
        Ok(())
    } else {
        let text = String::from_utf8_lossy(&output.stderr);
        Err(format!("{counted} of {}: {text}", traffic.sent))
    }
}
