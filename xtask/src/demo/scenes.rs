//! The scenes of the demo: commands, their output, and checks of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;

use super::{explain, show, traffic};

/// The temporary folder's name begins so.
pub(super) const FOLDER_PREFIX: &str = "ringtap-demo-";
/// For a command that should end by itself.
const LIMIT: Duration = Duration::from_secs(60);
/// How long each engine captures, after the main capture.
const ENGINE_TIME: Duration = Duration::from_millis(300);
/// The filter of the capture: the transfer and the datagrams.
const FILTER: &str = "tcp port 443 or udp";

/// An engine and its result.
pub(super) struct Engine {
    pub(super) name: &'static str,
    pub(super) result: String,
}

/// The state that the scenes share.
pub(super) struct Scenes<'a> {
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) duration: Duration,
}

impl Scenes<'_> {
    /// Runs all scenes on a network.
    pub(super) fn live(&self, pair: &VethPair) -> Result<Vec<Engine>, String> {
        show::heading(1, "What can be captured on the interface?");
        self.devices(pair)?;
        show::heading(2, "Packets as they pass, a line for each");
        self.watch(pair)?;
        let text = "A capture into a file, with a filter that runs in the kernel";
        show::heading(3, text);
        let (file, captured) = self.capture(pair)?;
        show::heading(4, "The file read back");
        let read = self.read_back(&file, captured, "udp port 53")?;
        show::heading(5, "The same traffic by each engine");
        let mut engines = self.engines(pair)?;
        engines.push(Engine {
            name: "file",
            result: format!("ran: read {}", packets(read)),
        });
        Ok(engines)
    }

    /// Checks that each engine that the interface supports captures all packets.
    fn engines(&self, pair: &VethPair) -> Result<Vec<Engine>, String> {
        let mut devices = self.inside(pair);
        devices.args(["devices", &pair.right.device]);
        let output = self.finished(&mut devices)?;
        let devices = String::from_utf8_lossy(&output.stdout).into_owned();
        let one = |name: &'static str| {
            let offered = format!(" {name} (");
            let is_offered =
                |line: &str| line.trim_start().starts_with("engine") && line.contains(&offered);
            let result = if !devices.lines().any(is_offered) {
                let reason = devices.lines().find(|line| line.contains("not usable"));
                format!("did not run: {}", reason.unwrap_or_default().trim())
            } else if name == "xsk" {
                format!("ran: took {}", self.takes(pair)?)
            } else {
                format!("ran: captured {}", self.captures(name, pair)?)
            };
            Ok(Engine { name, result })
        };
        ["packet", "tcx", "xdp", "xsk"]
            .into_iter()
            .map(one)
            .collect()
    }

    /// Captures the traffic by an engine of its own.
    fn captures(&self, engine: &str, pair: &VethPair) -> Result<String, String> {
        let mut dump = self.inside(pair);
        let device = format!("{engine}:{}", pair.right.device);
        // Towards the interface, which is what all engines see.
        dump.args(["dump", "-i", &device, "-w", "/dev/null"]);
        dump.arg(format!("udp dst port {}", traffic::MEDIA));
        let running = self.capturing(&mut dump, pair)?;
        let sent = traffic::run(pair, ENGINE_TIME).map_err(explain("the traffic"))?;
        self.caught(running, sent.datagrams)
    }

    /// Captures by AF_XDP, which takes the packets away from the host: some that nobody waits for.
    fn takes(&self, pair: &VethPair) -> Result<String, String> {
        let mut dump = self.inside(pair);
        let device = format!("xsk:{}", pair.right.device);
        dump.args(["dump", "-i", &device, "--mode", "steal", "-w", "/dev/null"]);
        dump.arg(format!("udp dst port {}", traffic::DISCARD));
        let running = self.capturing(&mut dump, pair)?;
        let sent = traffic::discarded(pair, ENGINE_TIME).map_err(explain("the traffic"))?;
        self.caught(running, sent)
    }

    /// Ends a capture of [`ENGINE_TIME`], which must have all that was sent.
    fn caught(&self, running: Running, sent: u64) -> Result<String, String> {
        running.signal("INT").map_err(explain("Ctrl-C"))?;
        let output = self.ended(running)?;
        show::output(&output.stderr, 10);
        let captured = count(&output.stderr)?;
        check(sent > 0 && captured >= sent, "packets are missing")?;
        Ok(format!(
            "{}, {} a second, {} lost",
            packets(captured),
            show::number(rate(captured, ENGINE_TIME)),
            show::number(losses(&output.stderr)),
        ))
    }

    /// Runs the scenes that need no privileges, on made-up traffic.
    pub(super) fn file_only(&self) -> Result<Vec<Engine>, String> {
        let input = self.folder.join("traffic.pcap");
        let traffic = Traffic {
            packets: 50_000,
            ..Traffic::default()
        };
        let made = traffic.write_file(&input);
        let made = made.map_err(explain("the capture file"))?;
        show::heading(1, "Packets of a file, a line for each");
        let mut print = Command::new(self.program);
        print.args(["dump", "-r"]).arg(&input);
        let output = self.finished(print.args(["-n", "-c", "10"]))?;
        show::output(&output.stdout, 10);
        check(lines(&output.stdout) == 10, "10 packets were to be printed")?;
        show::heading(2, "Some of them into another file, by a filter");
        let file = self.folder.join("capture.pcapng");
        let mut filter = Command::new(self.program);
        filter.args(["dump", "-r"]).arg(&input).arg("-w").arg(&file);
        let output = self.finished(filter.arg(FILTER))?;
        show::output(&output.stderr, 10);
        let captured = count(&output.stderr)?;
        let is_right = captured == made.https + made.udp;
        check(is_right, "other packets matched than were made")?;
        show::heading(3, "The file read back");
        let read = self.read_back(&file, captured, "udp port 5004")?;
        Ok(vec![
            Engine {
                name: "live",
                result: "did not run: no live capture here".into(),
            },
            Engine {
                name: "file",
                result: format!("ran: read {}", packets(made.packets + read)),
            },
        ])
    }

    fn devices(&self, pair: &VethPair) -> Result<(), String> {
        let mut devices = self.inside(pair);
        devices.args(["devices", &pair.right.device]);
        let output = self.finished(&mut devices)?;
        show::output(&output.stdout, 20);
        let text = String::from_utf8_lossy(&output.stdout);
        let is_there = text.contains(&pair.right.device);
        check(is_there, "the pair's interface is missing")
    }

    fn watch(&self, pair: &VethPair) -> Result<(), String> {
        let mut dump = self.inside(pair);
        dump.args(["dump", "-i", &pair.right.device, "-n", "-c", "10"]);
        let running = self.capturing(&mut dump, pair)?;
        let short = Duration::from_millis(500);
        traffic::run(pair, short).map_err(explain("the traffic"))?;
        let output = self.ended(running)?;
        show::output(&output.stdout, 10);
        check(lines(&output.stdout) == 10, "10 packets were to be printed")
    }

    fn capture(&self, pair: &VethPair) -> Result<(PathBuf, u64), String> {
        let file = self.folder.join("capture.pcapng");
        let mut dump = self.inside(pair);
        dump.args(["dump", "-i", &pair.right.device, "-w"]);
        let running = self.capturing(dump.arg(&file).arg(FILTER), pair)?;
        let sent = traffic::run(pair, self.duration).map_err(explain("the traffic"))?;
        running.signal("INT").map_err(explain("Ctrl-C"))?;
        let output = self.ended(running)?;
        let seconds = self.duration.as_secs_f64();
        println!("   ^C after {seconds:.0} s; meanwhile there passed");
        println!("     {} KB by TCP", show::number(sent.transfer / 1024));
        println!("     {} datagrams by UDP", show::number(sent.datagrams));
        let queries = show::number(sent.queries);
        println!("     {queries} DNS queries, and their answers");
        show::output(&output.stderr, 20);
        let captured = count(&output.stderr)?;
        let lost = losses(&output.stderr);
        let size = std::fs::metadata(&file)
            .map_err(explain("the capture"))?
            .len();
        show::remark(&format!(
            "{}, {} a second, {} lost ({:.2} %), {:.1} MB in the file",
            packets(captured),
            show::number(rate(captured, self.duration)),
            show::number(lost),
            share(lost, captured),
            megabytes(size),
        ));
        let is_whole = captured >= sent.datagrams + 2 * sent.queries;
        check(seconds > 0.0 && is_whole, "packets are missing")?;
        Ok((file, captured))
    }

    fn read_back(&self, file: &Path, captured: u64, filter: &str) -> Result<u64, String> {
        let mut names = Command::new(self.program);
        names.args(["dump", "-r"]).arg(file);
        let output = self.finished(names.args(["-n", "-c", "4", filter]))?;
        show::output(&output.stdout, 4);
        check(lines(&output.stdout) == 4, "4 packets were to be printed")?;
        println!();
        let mut whole = Command::new(self.program);
        whole.args(["dump", "-r"]).arg(file);
        let output = self.finished(whole.args(["-w", "/dev/null"]))?;
        show::output(&output.stderr, 10);
        let read = count(&output.stderr)?;
        check(read == captured, "not all that was captured is in the file")?;
        show::remark("as many as were captured");
        Ok(read)
    }

    fn inside(&self, pair: &VethPair) -> Command {
        let program = self.program.to_string_lossy();
        pair.right.namespace.command(&program)
    }

    fn capturing(&self, command: &mut Command, pair: &VethPair) -> Result<Running, String> {
        show::command(command, self.folder);
        let mut running = Running::start_piped(command).map_err(explain("ringtap"))?;
        let captures = running.wait_until_capturing(&pair.right, LIMIT);
        captures.map_err(explain("ringtap"))?;
        Ok(running)
    }

    fn finished(&self, command: &mut Command) -> Result<Output, String> {
        show::command(command, self.folder);
        self.ended(Running::start_piped(command).map_err(explain("ringtap"))?)
    }

    fn ended(&self, running: Running) -> Result<Output, String> {
        let output = running.wait(LIMIT).map_err(explain("ringtap"))?;
        if output.status.success() {
            return Ok(output);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(format!("ringtap: {}: {text}", output.status))
    }
}

fn check(holds: bool, otherwise: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| otherwise.to_owned())
}

fn lines(output: &[u8]) -> usize {
    String::from_utf8_lossy(output).lines().count()
}

/// Returns the number before `packets captured` in a summary.
fn count(summary: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(summary);
    let number = text.lines().find_map(|line| figure(line, "captured"));
    number.ok_or_else(|| format!("no summary: {text}"))
}

/// Returns the sum of all dropped packets in a summary.
fn losses(summary: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(summary);
    let places = [
        "dropped at the hook",
        "dropped in the ring",
        "dropped by the application",
    ];
    text.lines()
        .filter_map(|line| places.iter().find_map(|place| figure(line, place)))
        .sum()
}

fn figure(line: &str, label: &str) -> Option<u64> {
    let (number, what) = line.split_once(' ')?;
    let what = what
        .strip_prefix("packets ")
        .or_else(|| what.strip_prefix("packet "))?;
    (what == label).then(|| number.parse().ok())?
}

fn packets(count: u64) -> String {
    format!("{} packets", show::number(count))
}

fn rate(count: u64, duration: Duration) -> u64 {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    count * 1000 / millis.max(1)
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn share(part: u64, rest: u64) -> f64 {
    100.0 * part as f64 / (part + rest).max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::{count, losses};

    const SUMMARY: &[u8] = b"1234 packets captured\n1234 packets received by the filter\n\
        5 packets dropped in the ring\n1 packet dropped at the hook\n\
        0 packets dropped by the interface\n";

    #[test]
    fn summaries_are_read() {
        assert_eq!(count(SUMMARY), Ok(1234));
        assert_eq!(losses(SUMMARY), 6);
        assert!(count(b"nothing").is_err());
    }
}
