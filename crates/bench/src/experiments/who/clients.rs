//! Whether each packet names its process: clients that exit at once, and very many open sockets.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use ringtap_lab::netns::Side;
use ringtap_lab::process::Running;
use ringtap_packet::{Packet, PacketFlags};
use ringtap_savefile::{Item, ReadOptions, Reader};

use super::PORT;
use crate::helpers::{capturing, check, ended, float, succeeded};
use crate::results::Axis;
use crate::session::{Done, Session, Stop};
use crate::stage::Stage;

const CLIENTS: usize = 10_000;
const QUICK_CLIENTS: usize = 500;
const SOCKETS: usize = 200_000;
const QUICK_SOCKETS: usize = 20_000;
/// Sockets of one process, which may have 20,000 open files where limits are strict.
const SOCKETS_OF_PROCESS: usize = 10_000;
/// The clients of a run may take so long.
const LIMIT: Duration = Duration::from_secs(240);
/// The wait for the last packets of connections.
const SETTLED: Duration = Duration::from_millis(500);
/// The script of a client: its number is that of the process that connects, writes and exits.
const SCRIPT: &str =
    "for ((i = 0; i < $3; i++)); do (exec 3<>/dev/tcp/$1/$2; printf 'pid=%d;' $BASHPID >&3); done";
/// The script of a process with many sockets: it opens them, says so, waits until its input ends, and sends its number from
/// each. The first datagram is for the kernel, which looks for the neighbour.
const HOLDER: &str = "
import os, socket, sys, time
address, count, to = sys.argv[1], int(sys.argv[2]), (sys.argv[3], int(sys.argv[4]))
sockets = []
for port in range(10_000, 10_000 + count):
    sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sockets[-1].bind((address, port))
sockets[0].sendto(b'hello', to)
print('ready', flush=True)
sys.stdin.read()
for one in sockets:
    one.sendto(b'pid=%d;' % os.getpid(), to)
";
/// The least share of packets with the right process, in percent.
const GOAL: f64 = 99.9;

pub(super) fn run(session: &mut Session, stage: &Stage) -> Done {
    let metrics = [
        ("right", "%", 3),
        ("unknown", "packets", 0),
        ("wrong", "packets", 0),
    ];
    session.figure(
        "Packets that name their process",
        Axis::names("processes"),
        metrics,
    );
    session.at_most_rounds(1);
    let ringtap = session.ringtap.clone();
    let mut least = 100.0_f64;
    type Packets = fn(&Stage, &Path, &Path, usize) -> Done;
    let clients = session.amount(CLIENTS, QUICK_CLIENTS);
    let sockets = session.amount(SOCKETS, QUICK_SOCKETS);
    let cases: [(usize, &str, Packets); 2] = [
        (clients, "processes that connect and exit", exit_at_once),
        (sockets, "sockets open at once", open_at_once),
    ];
    for (count, what, make) in cases {
        session.case(&format!("{count} {what}"), None, &["dump --who"], 0, |_| {
            let folder = tempfile::tempdir()?;
            let file = folder.path().join("who.pcapng");
            make(stage, &ringtap, &file, count)?;
            let counted = count_packets(&file, count)?;
            least = least.min(counted.percent());
            Ok(counted.values())
        })?;
    }
    session.note(format!(
        "at least {least:.3} % of the packets name their process (goal {GOAL} %, and none a wrong one)"
    ));
    Ok(())
}

/// Captures with processes into a file on the left side.
fn record(side: &Side, ringtap: &Path, file: &Path) -> Done<Running> {
    let mut command = side.namespace.command(&ringtap.to_string_lossy());
    command.args(["dump", "-Z", "root", "--who", "-i"]);
    command.arg(format!("tcx:{}", side.device)).arg("-w");
    Ok(capturing(command.arg(file), side)?)
}

/// Has so many processes connect, say who they are, and exit.
fn exit_at_once(stage: &Stage, ringtap: &Path, file: &Path, count: usize) -> Done {
    let (left, right) = (&stage.pair.left, &stage.pair.right);
    let listener = right.run(|| TcpListener::bind((right.ipv4, PORT)))?;
    let running = record(left, ringtap, file)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..count {
                let Ok((mut connection, _)) = listener.accept() else {
                    return;
                };
                // A reset says as little as an end.
                let _ = connection.read_to_end(&mut Vec::new());
            }
        });
        let mut clients = left.namespace.command("bash");
        let arguments = ["-c", SCRIPT, "clients"];
        clients.args(arguments).arg(right.ipv4.to_string());
        clients.args([PORT.to_string(), count.to_string()]);
        let clients = Running::start_piped(&mut clients)?;
        Ok::<String, Stop>(succeeded(&clients.wait(LIMIT)?)?)
    })?;
    thread::sleep(SETTLED);
    ended(running).map(drop)
}

/// Opens so many sockets in several processes; when all are open, each sends a datagram.
fn open_at_once(stage: &Stage, ringtap: &Path, file: &Path, count: usize) -> Done {
    let (left, right) = (&stage.pair.left, &stage.pair.right);
    let holders = count.div_ceil(SOCKETS_OF_PROCESS);
    let running = record(left, ringtap, file)?;
    let mut started = Vec::with_capacity(holders);
    for holder in 0..holders {
        let address = format!("10.98.0.{holder}");
        let mut add = left.namespace.command("ip");
        add.args(["address", "replace", &format!("{address}/32"), "dev"]);
        check(add.arg(&left.device))?;
        let own = SOCKETS_OF_PROCESS.min(count - holder * SOCKETS_OF_PROCESS);
        let mut command = left.namespace.command("python3");
        command.args(["-c", HOLDER, &address, &own.to_string()]);
        command.args([right.ipv4.to_string(), PORT.to_string()]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        started.push(piped.spawn()?);
    }
    for child in &mut started {
        let mut line = [0; 6];
        let said = child.stdout.as_mut().map(|from| from.read_exact(&mut line));
        said.ok_or("no output")??;
    }
    // They send one after the other: the ring is not what is measured.
    for mut child in started {
        drop(child.stdin.take());
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("a process with sockets: {status}").into());
        }
    }
    thread::sleep(SETTLED);
    ended(running).map(drop)
}

/// Sent packets that say who their sender is.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    right: u64,
    unknown: u64,
    wrong: u64,
}

impl Counted {
    fn percent(self) -> f64 {
        100.0 * float(self.right) / float(self.right + self.unknown + self.wrong).max(1.0)
    }

    fn values(self) -> Vec<f64> {
        vec![self.percent(), float(self.unknown), float(self.wrong)]
    }
}

/// Compares what packets say with what was recorded of them. All have to be there.
fn count_packets(file: &Path, expected: usize) -> Done<Counted> {
    let stream = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let stream = Box::new(BufReader::new(stream));
    let name = file.display().to_string();
    let mut reader = Reader::new(stream, &name, &ReadOptions::default())?;
    let mut counted = Counted::default();
    while let Some(item) = reader.next()? {
        let Item::Run(run) = item else {
            continue;
        };
        for packet in run.packets() {
            let Some(claimed) = claimed(&packet) else {
                continue;
            };
            match packet.process.map(|process| process.pid) {
                None => counted.unknown += 1,
                Some(found) if found == claimed => counted.right += 1,
                Some(_) => counted.wrong += 1,
            }
        }
    }
    let all = counted.right + counted.unknown + counted.wrong;
    match all >= expected as u64 {
        true => Ok(counted),
        false => Err(format!("{all} of {expected} packets were captured").into()),
    }
}

/// Returns the number that a packet's sender wrote into it, if the packet was sent here.
fn claimed(packet: &Packet<'_>) -> Option<u32> {
    if packet.flags.0 & 3 != PacketFlags::OUTBOUND.0 {
        return None;
    }
    let data = packet.data;
    let start = data.windows(4).position(|part| part == b"pid=")? + 4;
    let length = data[start..].iter().position(|byte| *byte == b';')?;
    std::str::from_utf8(&data[start..start + length])
        .ok()?
        .parse()
        .ok()
}
