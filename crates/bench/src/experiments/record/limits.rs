//! The limits of a recorder: its budget under load, its memory with a large catalogue, and kills at any moment.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringtap_capture::{Next, ReadOptions, Source as _, open_file};
use ringtap_lab::netns::VethPair;
use ringtap_record::archive::{FileName, bytes_below, look};
use ringtap_sys::packet::inject::Injector;
use twox_hash::XxHash64;

use super::super::dump::{Generator, Storage};
use super::{recorder, recording, wire};
use crate::helpers::{LIMIT, check, datagram, ended, float};
use crate::results::{Axis, Case};
use crate::session::{Done, Session, told};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
/// The budget that a watcher checks, and how often.
const BUDGET: u64 = 64 << 20;
const LOOK: Duration = Duration::from_millis(10);
/// Packets of 1496 bytes, more than a hundred files of a megabyte.
const PACKETS: f64 = 120_000.0;
/// The rotations that the goal is about.
const ROTATIONS: f64 = 100.0;
/// Chunks in the catalogue, and files that have them.
const CHUNKS: u32 = 1_000_000;
const FILES: u32 = 1000;
/// The most memory beside the ring, in MiB.
const MEMORY: f64 = 128.0;
const RING: u64 = 8 << 20;
/// The kills in full, in a quick run, and with `--minutes`.
const KILLS: u32 = 100;
const QUICK_KILLS: u32 = 30;
const ALL_KILLS: u32 = 1000;
/// The most seconds of a start.
const START: f64 = 2.0;

pub(super) fn run(session: &mut Session) -> Done {
    let storage = Storage::first(session)?;
    session.at_most_rounds(1);
    budget(session, &storage.folder.join("budget"))?;
    memory(session, &storage.folder.join("memory"))?;
    kills(session, &storage.folder.join("kills"))
}

/// Watches the folder while files come and go.
fn budget(session: &mut Session, folder: &Path) -> Done {
    let title = "the folder's highest share of its budget";
    if !session.wants(title) {
        return Ok(());
    }
    let metrics = [("of the budget", "%", 2), ("files that were begun", "", 0)];
    session.figure("Budget under load", Axis::names("case"), metrics);
    let pair = wire()?;
    let generator = Generator::new(session, &pair.left, 1496, false)?;
    let options = ["--file-size", "1M", "--compress", "none", "--budget"];
    let mut command = recorder(session, &pair.right, folder, &options);
    command.arg(BUDGET.to_string());
    let case = session.case(title, None, &["ringtap record"], 0, |_| {
        let running = recording(&mut command)?;
        let over = AtomicBool::new(false);
        let highest = std::thread::scope(|scope| -> Done<u64> {
            let watcher = scope.spawn(|| {
                let mut highest = 0;
                while !over.load(Ordering::Relaxed) {
                    highest = highest.max(bytes_below(folder).unwrap_or(0));
                    std::thread::sleep(LOOK);
                }
                highest
            });
            let sent = generator.send(20, 60.0, PACKETS);
            let end = ended(running);
            over.store(true, Ordering::Relaxed);
            let highest = watcher.join().map_err(|_| "the watcher has failed")?;
            sent?;
            end?;
            Ok(highest)
        })?;
        let begun = last_number(folder)?;
        std::fs::remove_dir_all(folder)?;
        Ok(vec![
            float(highest) / float(BUDGET) * 100.0,
            f64::from(begun),
        ])
    })?;
    if let Some(case) = case {
        session.note(judged(&case));
    }
    Ok(())
}

/// Returns what the watched folder says of the goal.
fn judged(case: &Case) -> String {
    let highest = case.contenders[0].samples[0].most();
    let begun = case.contenders[0].samples[1].most();
    let told = match (highest <= 100.0, begun > ROTATIONS) {
        (true, false) => "not tested: too few packets were captured",
        (is_reached, _) => told(is_reached),
    };
    format!(
        "looked at every {} ms, the folder takes {highest:.2} % of its budget at most, with {begun} files one after \
         the other; the goal, never more over {ROTATIONS} rotations, is {told}",
        LOOK.as_millis()
    )
}

/// Returns the number of the newest file.
fn last_number(folder: &Path) -> Done<u32> {
    let found = look(folder)?;
    let names = found
        .iter()
        .filter_map(|found| FileName::parse(&found.name));
    Ok(names.map(|name| name.number).max().unwrap_or(0))
}

/// Starts a recorder in a folder whose catalogue has a million chunks.
fn memory(session: &mut Session, folder: &Path) -> Done {
    let title = format!("a catalogue of {CHUNKS} chunks");
    if !session.wants(&title) {
        return Ok(());
    }
    let metrics = [("peak memory", "MiB", 1), ("start", "s", 2)];
    session.figure("A large catalogue", Axis::names("case"), metrics);
    write_catalogue(folder)?;
    let pair = wire()?;
    let ring = RING.to_string();
    let options = ["--budget", "100G", "--buffer", &ring];
    let mut command = recorder(session, &pair.right, folder, &options);
    let case = session.case(&title, None, &["ringtap record"], 0, |_| {
        let begun = Instant::now();
        let running = recording(&mut command)?;
        let start = begun.elapsed().as_secs_f64();
        // The status is written a few times.
        std::thread::sleep(Duration::from_secs(3));
        let peak = running.peak_memory().ok_or("no memory is reported")?;
        ended(running)?;
        Ok(vec![float(peak) / MEBIBYTE, start])
    })?;
    std::fs::remove_dir_all(folder)?;
    if let Some(case) = case {
        let peak = case.contenders[0].samples[0].most() - float(RING) / MEBIBYTE;
        let told = told(peak <= MEMORY);
        session.note(format!(
            "beside the ring it takes {peak:.1} MiB with a million chunks; the goal, at most {MEMORY:.0} MiB, is {told}"
        ));
    }
    Ok(())
}

/// Writes a catalogue, and the files that it is about, which have no bytes (docs/reference/record.md).
fn write_catalogue(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir(folder)?;
    let mut catalogue = BufWriter::new(File::create(folder.join("catalogue.1"))?);
    let mut header = [0; 64];
    header[..8].copy_from_slice(b"RTCATLOG");
    header[8] = 1;
    catalogue.write_all(&header)?;
    let each = CHUNKS / FILES;
    for number in 1..=FILES {
        let begun = 1_700_000_000_000_000_000 + i64::from(number) * 1_000_000_000;
        let name = FileName {
            begun,
            number,
            device: "eth0".to_owned(),
            compressed: true,
        };
        File::create(name.path(folder))?;
        let mut first = [0; 52];
        first[..8].copy_from_slice(&begun.to_le_bytes());
        first[8..12].copy_from_slice(b"eth0");
        catalogue.write_all(&entry(1, 1, number, &first))?;
        for chunk in 0..u64::from(each) {
            let mut content = Vec::new();
            content.extend(begun.to_le_bytes());
            content.extend(begun.to_le_bytes());
            content.extend((6 + chunk * 1000).to_le_bytes());
            content.extend(1000_u32.to_le_bytes());
            content.extend((chunk * 2000).to_le_bytes());
            content.extend(2000_u32.to_le_bytes());
            content.extend(10_u32.to_le_bytes());
            content.extend(chunk.to_le_bytes());
            catalogue.write_all(&entry(2, 0, number, &content))?;
        }
        let mut last = [0; 52];
        last[8..16].copy_from_slice(&u64::from(each * 10).to_le_bytes());
        last[16..24].copy_from_slice(&begun.to_le_bytes());
        last[24..32].copy_from_slice(&begun.to_le_bytes());
        catalogue.write_all(&entry(3, 0, number, &last))?;
    }
    catalogue.flush()
}

/// Returns an entry of the catalogue.
fn entry(kind: u8, flags: u8, file: u32, content: &[u8]) -> [u8; 64] {
    let mut entry = [0; 64];
    (entry[0], entry[1]) = (kind, flags);
    entry[8..12].copy_from_slice(&file.to_le_bytes());
    entry[12..12 + content.len()].copy_from_slice(content);
    let sum = XxHash64::oneshot(0, &entry);
    entry[4..8].copy_from_slice(&sum.to_le_bytes()[..4]);
    entry
}

/// Kills recorders at random moments while packets with numbers arrive, and counts those that are missing.
fn kills(session: &mut Session, folder: &Path) -> Done {
    let count = match session.minutes {
        Some(_) => ALL_KILLS,
        None => session.amount(KILLS, QUICK_KILLS),
    };
    let title = format!("{count} kills");
    if !session.wants(&title) {
        return Ok(());
    }
    let metrics = [
        ("missing though older than a second", "packets", 0),
        ("twice", "packets", 0),
        ("longest start", "s", 2),
    ];
    session.figure("Kills at random moments", Axis::names("case"), metrics);
    let pair = wire()?;
    let options = ["--budget", "2G", "--file-size", "4M", "--file-time", "5s"];
    let mut command = recorder(session, &pair.right, folder, &options);
    let ringtap = session.ringtap.clone();
    let case = session.case(&title, None, &["ringtap record"], 0, |_| {
        let sender = Sender::start(&pair)?;
        let mut times = Vec::new();
        let (mut random, mut longest) = (u64::from(std::process::id()) | 1, 0.0_f64);
        for _ in 0..count {
            let asked = Instant::now();
            let running = recording(&mut command)?;
            longest = longest.max(asked.elapsed().as_secs_f64());
            let begun = Instant::now();
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            std::thread::sleep(Duration::from_millis(50 + random % 1950));
            let killed = Instant::now();
            running.signal("KILL")?;
            running.wait(LIMIT)?;
            times.push((begun, killed));
        }
        let sent = sender.end()?;
        ended(recording(&mut command)?)?;
        let (missing, twice) = compare(&ringtap, folder, &times, &sent)?;
        std::fs::remove_dir_all(folder)?;
        Ok(vec![float(missing), float(twice), longest])
    })?;
    if let Some(case) = case {
        let most = |metric: usize| case.contenders[0].samples[metric].most();
        let told = told(most(0) + most(1) == 0.0 && most(2) <= START);
        session.note(format!(
            "{count} kills: {} packets older than a second are missing, {} are there twice, the longest start takes {:.2} s; \
             the goal, none, none and {START:.0} s, is {told}",
            most(0),
            most(1),
            most(2)
        ));
    }
    Ok(())
}

/// Ten numbered packets at a time, a hundred times a second.
struct Sender {
    over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Sent>,
}

/// The first number of each ten packets, and when they were sent.
type Sent = Vec<(u64, Instant)>;

const AT_ONCE: u64 = 10;
const PAUSE: Duration = Duration::from_millis(10);
/// The bytes of a packet, and where its number is.
const LEN: u16 = 300;
const NUMBER: std::ops::Range<usize> = 42..50;

impl Sender {
    fn start(pair: &VethPair) -> Done<Self> {
        let side = &pair.left;
        let index = side.namespace.netlink().index(&side.device)?;
        let injector = side.run(|| Injector::open(index))?;
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let (mut frame, mut sent, mut next) = (datagram(LEN), Vec::new(), 0_u64);
            while !stop.load(Ordering::Relaxed) {
                sent.push((next, Instant::now()));
                for number in next..next + AT_ONCE {
                    frame[NUMBER].copy_from_slice(&number.to_be_bytes());
                    while injector.send(&frame).is_err() {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
                next += AT_ONCE;
                std::thread::sleep(PAUSE);
            }
            sent
        });
        Ok(Self { over, thread })
    }

    fn end(self) -> Done<Sent> {
        self.over.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the sender has failed")?)
    }
}

/// Returns how many packets are missing that were sent while a recorder ran, and more than a second before it was
/// killed, and how many are there twice.
fn compare(
    ringtap: &Path,
    folder: &Path,
    times: &[(Instant, Instant)],
    sent: &Sent,
) -> Done<(u64, u64)> {
    let file: PathBuf = folder.with_extension("pcapng");
    let mut extract = Command::new(ringtap);
    extract.args(["extract", "-Z", "root", "--dir"]).arg(folder);
    check(extract.arg("-w").arg(&file).stderr(Stdio::null()))?;
    let mut source = open_file(&file, &ReadOptions::default(), None)?;
    let (mut found, mut twice) = (HashSet::new(), 0);
    loop {
        match source.next()? {
            Next::Block(block) => {
                for packet in block.packets() {
                    let number = packet.data.get(NUMBER);
                    if packet.len == u32::from(LEN)
                        && let Some(number) = number.and_then(|bytes| bytes.first_chunk())
                    {
                        twice += u64::from(!found.insert(u64::from_be_bytes(*number)));
                    }
                }
            }
            Next::End => break,
            _ => {}
        }
    }
    drop(source);
    std::fs::remove_file(&file)?;
    let mut missing = 0;
    for (begun, killed) in times {
        let from = *begun + Duration::from_millis(50);
        let is_whole = |at: Instant| at > from && at + Duration::from_secs(1) < *killed;
        for (first, _) in sent.iter().filter(|(_, at)| is_whole(*at)) {
            let gone = (*first..first + AT_ONCE).filter(|number| !found.contains(number));
            missing += gone.count() as u64;
        }
    }
    Ok((missing, twice))
}
