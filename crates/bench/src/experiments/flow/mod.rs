//! Flows of a file in the page cache, against softflowd and nfpcapd, all bound to one processor.
//!
//! Packets are 10 µs apart, so that no timeout passes while a file is read: softflowd uses the
//! host's clock when it reads a file, and would otherwise have less to do than the others. Records
//! go to the same kind of place as the peer's: with nfpcapd into a file, with softflowd as NetFlow v9 to
//! a socket on loopback. Nobody reads from that socket while flows repeat, so it stays full and sending
//! costs no time; with mixed traffic a collector reads it on another processor. ringtap's flow keys
//! additionally have tags, type of service and interface. The caches of softflowd and ringtap are sized
//! for the flows of the file. That of nfpcapd grows by itself, and is not faster if the number is given.

mod collector;
mod files;
mod memory;
mod vary;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_lab::Need;

use crate::goals;
use crate::helpers::{children_seconds, fill_cache, float, timed};
use crate::results::{Axis, Case};
use crate::session::{Done, Session, Side, judge};
use collector::Collector;

/// More than the flows of any file.
const CACHE: &str = "1100000";
const ACTIVE: &str = "300";
const INACTIVE: &str = "60";
const PEERS: [&str; 2] = ["softflowd", "nfpcapd"];
const MIXED: &str = "mixed traffic";

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Tool("taskset"), Need::Tool("dd")], 1)?;
    let peers: Vec<&str> = PEERS
        .into_iter()
        .filter(|peer| session.peer(peer).is_some())
        .collect();
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let folder = folder.path();
    session.figure("A capture file metered", Axis::names("file"), METRICS);
    mixed(session, &peers, folder)?;
    repeated(session, &peers, folder)?;
    options(session, folder)?;
    memory::run(session)
}

const METRICS: [(&str, &str, usize); 3] = [
    ("time", "s", 3),
    ("processor time", "s", 3),
    ("metered", "million packets/s", 2),
];

/// Measures files in which flows repeat.
fn repeated(session: &mut Session, peers: &[&str], folder: &Path) -> Done {
    // Nobody reads from this socket.
    let sink = UdpSocket::bind("127.0.0.1:0").map_err(|error| format!("a socket: {error}"))?;
    let collector = sink
        .local_addr()
        .map_err(|error| format!("a socket: {error}"))?;
    let collector = collector.to_string();
    let path = folder.join("bench.pcap");
    type Write = fn(&Path, bool) -> std::io::Result<u64>;
    let cases: [(&str, Write, bool); 3] = [
        ("the corpus, repeated", files::write_corpus, true),
        (
            "64 bytes, every packet of another flow",
            files::write_flows,
            true,
        ),
        ("the corpus, just written", files::write_corpus, false),
    ];
    for (title, write, is_read_back) in cases {
        if !session.wants(title) {
            continue;
        }
        let packets = write(&path, session.quick).map_err(|error| format!("the file: {error}"))?;
        if is_read_back && packets > 0 {
            read_back(&path)?;
        }
        let file = Capture {
            path: path.clone(),
            packets,
        };
        against(session, title, peers, &file, (&collector, folder))?;
    }
    Ok(())
}

/// Measures mixed traffic, in which new flows keep coming.
fn mixed(session: &mut Session, peers: &[&str], folder: &Path) -> Done {
    if !session.wants(MIXED) {
        return Ok(());
    }
    let file = Capture::mixed(session, folder)?;
    let collector = Collector::start()?;
    let address = collector.address();
    against(session, MIXED, peers, &file, (address, folder))
}

/// Measures one file, with a collector's address and a folder for records.
fn against(
    session: &mut Session,
    title: &str,
    peers: &[&str],
    file: &Capture,
    (collector, folder): (&str, &Path),
) -> Done {
    let packets = file.packets;
    if packets == 0 {
        session.note(format!("{title}: there is no corpus of captures here"));
        return Ok(());
    }
    for &peer in peers {
        let case = format!("{title}, {packets} packets, one processor");
        let ringtap = session.ringtap.clone();
        let case = session.versus(&case, peer, |side| {
            let program = match side {
                Side::Ringtap if peer == "softflowd" => {
                    Program::Ringtap(&ringtap, "--top 0", Records::Collector(collector))
                }
                Side::Ringtap => Program::Ringtap(&ringtap, "--top 0", Records::File),
                Side::Peer if peer == "softflowd" => Program::Softflowd(collector),
                Side::Peer => Program::Nfpcapd,
            };
            program.measure(file, folder)
        })?;
        judge(&format!("of {peer}'s time"), goals::FLOW, case.as_ref(), 0);
    }
    Ok(())
}

const OPTIONS: &str = "mixed traffic, what options add";
const FIELDS: &str = "mixed traffic, what fields add";
const STORE: &str = "mixed traffic, what a store adds";

/// Measures options of ringtap with mixed traffic: what each adds to the time without it.
fn options(session: &mut Session, folder: &Path) -> Done {
    if ![OPTIONS, FIELDS, STORE]
        .iter()
        .any(|title| session.wants(title))
    {
        return Ok(());
    }
    let title = "What options add to metering";
    session.figure(title, Axis::names("file"), METRICS);
    let file = Capture::mixed(session, folder)?;
    if file.packets == 0 {
        return Ok(());
    }
    let place = (&file, folder);
    let top = [
        ("ringtap --top 10", "--top 10", Records::None),
        ("ringtap --top 0", "--top 0", Records::None),
    ];
    compare(session, OPTIONS, &top, place)?;
    let fields = [
        ("--fields all", "--top 0 --fields all", Records::File),
        (
            "--fields basic,names",
            "--top 0 --fields basic,names",
            Records::File,
        ),
        (
            "--fields basic,tcp",
            "--top 0 --fields basic,tcp",
            Records::File,
        ),
        ("--fields basic", "--top 0", Records::File),
    ];
    let case = compare(session, FIELDS, &fields, place)?;
    judge(
        "of the time without fields",
        goals::FIELDS,
        case.as_ref(),
        0,
    );
    let stores = [
        (
            "ringtap --store --store-wal",
            "--top 0 --store-wal",
            Records::Store,
        ),
        ("ringtap --store", "--top 0", Records::Store),
        ("ringtap, no records", "--top 0", Records::None),
    ];
    let case = compare(session, STORE, &stores, place)?;
    judge("of the time without", goals::STORE, case.as_ref(), 1);
    Ok(())
}

/// Measures ringtap with several options, of which the last are the reference. A contender has a name, options, and a
/// place for records.
fn compare(
    session: &mut Session,
    title: &str,
    contenders: &[(&str, &str, Records<'_>)],
    (file, folder): (&Capture, &Path),
) -> Done<Option<Case>> {
    let ringtap = session.ringtap.clone();
    let case = format!("{title}, {} packets, one processor", file.packets);
    let names: Vec<&str> = contenders.iter().map(|(name, ..)| *name).collect();
    session.case(&case, None, &names, names.len() - 1, |who| {
        let (_, options, records) = contenders[who];
        Program::Ringtap(&ringtap, options, records).measure(file, folder)
    })
}

/// A file to be metered.
struct Capture {
    path: PathBuf,
    packets: u64,
}

impl Capture {
    /// Returns the file of mixed traffic, in the page cache; without packets if there is no corpus.
    fn mixed(session: &Session, folder: &Path) -> Done<Self> {
        let made = files::mixed(folder, session.quick);
        let (path, packets) = made.map_err(|error| format!("the file: {error}"))?;
        if packets > 0 {
            read_back(&path)?;
        }
        Ok(Self { path, packets })
    }
}

/// Where ringtap's records go.
#[derive(Clone, Copy)]
enum Records<'a> {
    None,
    /// To a file.
    File,
    /// To a store, which is new.
    Store,
    /// To the collector of this address, as NetFlow v9.
    Collector(&'a str),
}

enum Program<'a> {
    /// With options, and the place for records.
    Ringtap(&'a Path, &'a str, Records<'a>),
    /// With the collector's address.
    Softflowd(&'a str),
    Nfpcapd,
}

impl Program<'_> {
    /// Returns the values of [`METRICS`] for a file. Other files are written to `folder`.
    fn measure(&self, file: &Capture, folder: &Path) -> Done<Vec<f64>> {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]);
        let (flows, store) = (folder.join("nfpcapd"), folder.join("store"));
        match *self {
            Self::Ringtap(program, options, records) => {
                command.arg(program).args(["flow", "--active", ACTIVE]);
                command.args(["--inactive", INACTIVE, "--flows", CACHE]);
                command.args(options.split_whitespace());
                match records {
                    Records::None => {}
                    Records::Store => {
                        command.arg("--store").arg(&store);
                    }
                    Records::File => {
                        command.arg("-w").arg(folder.join("records.ipfix"));
                    }
                    Records::Collector(address) => {
                        command.args(["--version", "9", "--export"]);
                        command.arg(format!("udp:{address}"));
                    }
                }
            }
            Self::Softflowd(collector) => {
                // No daemon and no control socket; it removes its pid file when it ends.
                command.args(["softflowd", "-d", "-6", "-v", "9", "-c", "none"]);
                command.arg("-p").arg(folder.join("softflowd.pid"));
                command.args(["-m", CACHE, "-n", collector]);
                command.args(["-t", &format!("maxlife={ACTIVE}")]);
                for name in ["general", "tcp", "tcp.rst", "tcp.fin", "udp", "icmp"] {
                    command.args(["-t", &format!("{name}={INACTIVE}")]);
                }
            }
            Self::Nfpcapd => {
                std::fs::create_dir_all(&flows).map_err(|error| format!("a folder: {error}"))?;
                let timeouts = format!("{ACTIVE},{INACTIVE}");
                command.args(["nfpcapd", "-e", &timeouts, "-w"]).arg(&flows);
            }
        }
        command.arg("-r").arg(&file.path);
        let before = children_seconds()?;
        let seconds = timed(&mut command)?;
        let processor = children_seconds()? - before;
        for written in [flows, store] {
            if written.is_dir() {
                std::fs::remove_dir_all(written).map_err(|error| format!("its folder: {error}"))?;
            }
        }
        let rate = float(file.packets) / seconds / 1e6;
        Ok(vec![seconds, processor, rate])
    }
}

/// Makes the page cache hold the file as read from the disk, not as written.
fn read_back(path: &Path) -> Done {
    let mut drop_cache = Command::new("dd");
    drop_cache.arg(format!("of={}", path.display()));
    drop_cache.args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"]);
    timed(drop_cache.arg("status=none"))?;
    fill_cache(path).map_err(|error| format!("the file: {error}"))?;
    Ok(())
}
