//! Flows of a file in the page cache, against softflowd and nfpcapd, all bound to one processor.
//!
//! Packets are 10 µs apart, so that no timeout passes while a file is read: softflowd uses the host's clock
//! when it reads a file, and would otherwise have less to do than the others. Records go to the same kind of
//! place as the peer's: with softflowd as NetFlow v9 to a socket on loopback that is never read, with nfpcapd
//! into a file. ringtap's flow keys additionally have tags, type of service and interface. The caches of
//! softflowd and ringtap are sized for the flows of the file. That of nfpcapd grows by itself, and is not
//! faster if the number is given.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use ringtap_lab::Need;
use ringtap_lab::corpus;
use ringtap_lab::pcap::{self, Pcap};

use crate::goals;
use crate::helpers::{children_seconds, fill_cache, float, timed};
use crate::results::{Axis, Metric};
use crate::session::{Done, Session, Side, judge};

/// The size of the capture that the corpus is repeated to, in bytes.
const BYTES: u64 = 1_050_000_000;
const QUICK_BYTES: u64 = 100_000_000;
const FLOWS: u32 = 1_000_000;
const QUICK_FLOWS: u32 = 100_000;
/// The number of packets of each flow.
const TURNS: u32 = 5;
/// More than the flows of either file.
const CACHE: &str = "1100000";
const ACTIVE: &str = "300";
const INACTIVE: &str = "60";
const APART_US: u64 = 10;
const START_US: u64 = 1_700_000_000_000_000;
const PEERS: [&str; 2] = ["softflowd", "nfpcapd"];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Tool("taskset"), Need::Tool("dd")])?;
    let peers: Vec<&str> = PEERS
        .into_iter()
        .filter(|peer| session.peer(peer).is_some())
        .collect();
    let metrics = vec![
        Metric::new("time", "s", 3),
        Metric::new("processor time", "s", 3),
        Metric::new("metered", "million packets/s", 2),
    ];
    session.figure("A capture file metered", Axis::names("file"), metrics);
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    // softflowd sends to this socket. It is never read, so it stays full and costs no time.
    let sink = UdpSocket::bind("127.0.0.1:0").map_err(|error| format!("a socket: {error}"))?;
    let collector = sink
        .local_addr()
        .map_err(|error| format!("a socket: {error}"))?
        .to_string();
    let file = folder.path().join("bench.pcap");
    type Write = fn(&Path, bool) -> io::Result<u64>;
    let cases: [(&str, Write, bool); 3] = [
        ("the corpus, repeated", write_corpus, true),
        ("64 bytes, every packet of another flow", write_flows, true),
        ("the corpus, just written", write_corpus, false),
    ];
    for (title, write, is_read_back) in cases {
        if !session.wants(title) {
            continue;
        }
        let packets = write(&file, session.quick).map_err(|error| format!("the file: {error}"))?;
        if packets == 0 {
            session.note(format!("{title}: there is no corpus of captures here"));
            continue;
        }
        if is_read_back {
            read_back(&file)?;
        }
        for &peer in &peers {
            let case = format!("{title}, {packets} packets, one processor");
            let ringtap = session.ringtap.clone();
            let case = session.versus(&case, peer, |side| {
                let program = match side {
                    Side::Ringtap => Program::Ringtap(&ringtap, peer, &collector),
                    Side::Peer if peer == "softflowd" => Program::Softflowd(&collector),
                    Side::Peer => Program::Nfpcapd(folder.path()),
                };
                let (seconds, processor) = program.time(&file)?;
                Ok(vec![seconds, processor, float(packets) / seconds / 1e6])
            })?;
            judge(&format!("of {peer}'s time"), goals::FLOW, case.as_ref(), 0);
        }
    }
    Ok(())
}

enum Program<'a> {
    /// Writes records where those of this peer go, at this collector.
    Ringtap(&'a Path, &'a str, &'a str),
    /// With the collector's address.
    Softflowd(&'a str),
    /// With the folder that it writes below.
    Nfpcapd(&'a Path),
}

impl Program<'_> {
    /// Returns the seconds that it takes for the file, by the clock and on a processor.
    fn time(&self, file: &Path) -> Result<(f64, f64), String> {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]);
        let mut made = None;
        match self {
            Self::Ringtap(program, peer, collector) => {
                command.arg(program).args(["flow", "--active", ACTIVE]);
                command.args(["--inactive", INACTIVE, "--flows", CACHE]);
                command.args(["--top", "0"]);
                if *peer == "softflowd" {
                    command.args(["--version", "9", "--export"]);
                    command.arg(format!("udp:{collector}"));
                } else {
                    command.arg("-w").arg(file.with_extension("ipfix"));
                }
                command.arg("-r").arg(file);
            }
            Self::Softflowd(collector) => {
                // No daemon and no control socket; it removes its pid file when it ends.
                command.args(["softflowd", "-d", "-6", "-v", "9", "-c", "none"]);
                command.arg("-p").arg(file.with_extension("pid"));
                command.args(["-m", CACHE, "-n", collector]);
                command.args(["-t", &format!("maxlife={ACTIVE}")]);
                for name in ["general", "tcp", "tcp.rst", "tcp.fin", "udp", "icmp"] {
                    command.args(["-t", &format!("{name}={INACTIVE}")]);
                }
                command.arg("-r").arg(file);
            }
            Self::Nfpcapd(folder) => {
                let flows = folder.join("nfpcapd");
                std::fs::create_dir_all(&flows).map_err(|error| format!("a folder: {error}"))?;
                let timeouts = format!("{ACTIVE},{INACTIVE}");
                command.args(["nfpcapd", "-e", &timeouts, "-w"]);
                command.arg(&flows).arg("-r").arg(file);
                made = Some(flows);
            }
        }
        let before = children_seconds()?;
        let seconds = timed(&mut command)?;
        let processor = children_seconds()? - before;
        if let Some(flows) = made {
            std::fs::remove_dir_all(flows).map_err(|error| format!("its folder: {error}"))?;
        }
        Ok((seconds, processor))
    }
}

/// Makes the page cache hold the file as read from the disk, not as written.
fn read_back(path: &Path) -> Result<(), String> {
    let mut drop_cache = Command::new("dd");
    drop_cache.arg(format!("of={}", path.display()));
    drop_cache.args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"]);
    timed(drop_cache.arg("status=none"))?;
    fill_cache(path).map_err(|error| format!("the file: {error}"))?;
    Ok(())
}

/// Writes the Ethernet captures of the corpus, repeated.
fn write_corpus(path: &Path, quick: bool) -> io::Result<u64> {
    let goal = if quick { QUICK_BYTES } else { BYTES };
    let captures: Vec<Vec<u8>> = corpus::files()
        .iter()
        .map(std::fs::read)
        .collect::<io::Result<_>>()?;
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(path)?);
    writer.write_all(&pcap::header(1))?;
    let (mut packets, mut bytes) = (0, 0);
    while bytes < goal {
        let before = packets;
        for capture in &captures {
            let Ok(capture) = Pcap::parse(capture) else {
                continue;
            };
            if capture.link_type != 1 {
                continue;
            }
            for record in capture.records() {
                // Damaged files end where they are damaged.
                let Ok(record) = record else { break };
                // Packets that are too long for some programs are left out.
                if record.data.len() > usize::from(u16::MAX) {
                    continue;
                }
                write_record(&mut writer, packets, record.len, record.data)?;
                packets += 1;
                bytes += 16 + record.data.len() as u64;
            }
        }
        if packets == before {
            break;
        }
    }
    writer.flush()?;
    Ok(packets)
}

/// Writes packets of 64 bytes, including the frame check sequence: all flows in turn, in an order
/// that jumps across the addresses.
fn write_flows(path: &Path, quick: bool) -> io::Result<u64> {
    let flows = if quick { QUICK_FLOWS } else { FLOWS };
    // It has no common factor with the number of flows.
    const STRIDE: u64 = 618_033_989;
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(path)?);
    writer.write_all(&pcap::header(1))?;
    let mut frame = [0_u8; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    // Not DNS, whose packets nfpcapd writes one by one, without a cache.
    frame[34..42].copy_from_slice(&[0x10, 0, 0x23, 0x28, 0, 26, 0, 0]);
    let packets = u64::from(flows) * u64::from(TURNS);
    for number in 0..packets {
        let turn = number / u64::from(flows);
        let flow = number.wrapping_mul(STRIDE).wrapping_add(turn * 7) % u64::from(flows);
        let address = u32::try_from(flow).map_err(io::Error::other)?;
        frame[26..30].copy_from_slice(&(0x0a00_0000 + address).to_be_bytes());
        frame[30..34].copy_from_slice(&(0xc0a8_0000 + address % 65_536).to_be_bytes());
        write_record(&mut writer, number, 60, &frame)?;
    }
    writer.flush()?;
    Ok(packets)
}

fn write_record(out: &mut impl Write, number: u64, len: u32, data: &[u8]) -> io::Result<()> {
    let time = START_US + number * APART_US;
    let captured = u32::try_from(data.len()).map_err(io::Error::other)?;
    let seconds = u32::try_from(time / 1_000_000).map_err(io::Error::other)?;
    let micros = u32::try_from(time % 1_000_000).map_err(io::Error::other)?;
    for word in [seconds, micros, captured, len.max(captured)] {
        out.write_all(&word.to_ne_bytes())?;
    }
    out.write_all(data)
}
