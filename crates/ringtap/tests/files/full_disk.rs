//! On a full disk, commands end at once, and count the packets that a reader finds in their files.
//!
//! The disks are small ones, in mount namespaces that end with the program.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, Test, test};

use crate::program::{Folder, LIMIT, RINGTAP, stderr};

pub(crate) fn tests() -> Vec<Test> {
    let needs = [Need::Root, Need::Tool("unshare")];
    let ext4 = [
        needs[0],
        needs[1],
        Need::LoopDevices,
        Need::Tool("mkfs.ext4"),
    ];
    let mut tests = Vec::new();
    for name in CAPTURES {
        tests.push(test(
            format!("rewriting to {name} counts what is there"),
            &needs,
            move || rewritten(MEMORY, name),
        ));
        tests.push(test(
            format!("rewriting to {name} on ext4 counts what is there"),
            &ext4,
            move || rewritten(EXT4, name),
        ));
        tests.push(test(
            format!("a capture to {name} ends at once and counts what is there"),
            &needs,
            move || captured(MEMORY, name),
        ));
        tests.push(test(
            format!("a capture to {name} on ext4 ends at once and counts what is there"),
            &ext4,
            move || captured(EXT4, name),
        ));
    }
    for name in RECORDS {
        tests.push(test(
            format!("flows of a file to {name} are counted as they are there"),
            &needs,
            move || flows(name),
        ));
    }
    for threads in ["1", "2"] {
        tests.push(test(
            format!(
                "flows of a capture by {threads} end at once and are counted as they are there"
            ),
            &needs,
            move || live_flows(threads),
        ));
    }
    tests
}

/// Formats and codecs.
const CAPTURES: [&str; 8] = [
    "f.pcap",
    "f.pcapng",
    "f.pcap.gz",
    "f.pcapng.gz",
    "f.pcap.zst",
    "f.pcapng.zst",
    "f.pcap.lz4",
    "f.pcapng.lz4",
];

/// Formats of records.
const RECORDS: &[&str] = &[
    "f.csv",
    "f.json",
    "f.ipfix",
    #[cfg(feature = "parquet")]
    "f.parquet",
];

/// How a disk of some hundred KiB is made at `disk`.
const MEMORY: &str = "mount -t tmpfs -o size=256k tmpfs disk";
const EXT4: &str = "PATH=$PATH:/usr/sbin:/sbin; truncate -s 600k image; \
                    mkfs.ext4 -q -F -m 0 -O ^has_journal image; mount -o loop image disk";

/// Packets that do not fit, compressed or not.
const MANY: u64 = 60_000;

/// Packets that do not fit uncompressed, and all come before the disk reports an error.
const FEW: u64 = 2_000;

/// Returns a script that makes the disk, runs the program and copies the disk's content.
fn script(disk: &str, line: &str) -> String {
    format!("mkdir disk; {disk}; {RINGTAP} {line}; status=$?; cp -r disk kept; exit $status")
}

fn unshare(folder: &Folder, script: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .current_dir(folder.root());
    command
}

/// Returns the number before these words.
fn number_before(text: &str, words: &str) -> u64 {
    let before = text.split(words).next().unwrap_or_default();
    let number = before.rsplit([' ', '(', '\n']).next();
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no number before {words:?}: {text}"))
}

/// The writer's report, and the packets that a reader finds.
fn compare(folder: &Folder, name: &str, text: &str) {
    assert!(text.contains("No space left"), "{text}");
    let captured = number_before(text, " packets captured");
    assert!(!text.contains(" 0 bytes are intact"), "{text}");
    let words = [" packets, ", " packets are intact"];
    let words = words.iter().find(|words| text.contains(**words));
    let intact = number_before(text, words.expect("what is intact"));
    let output = folder.run(&format!("dump -r kept/{name} -w /dev/null"));
    let read = number_before(&stderr(&output), " packets captured");
    assert_eq!((captured, intact), (read, read), "{text}");
    assert!(read > 0, "{text}");
}

fn rewritten(disk: &str, name: &str) {
    let folder = Folder::new(MANY);
    let line = format!("dump -r in.pcap -w disk/{name}");
    let output = folder.finished(&mut unshare(&folder, &script(disk, &line)));
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    compare(&folder, name, &text);
}

/// Starts a line with `-i DEV` on the side, and waits until it captures.
fn start(folder: &Folder, side: &Side, script: &str) -> Running {
    let mut command = side.namespace.command("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .current_dir(folder.root());
    let mut running = Running::start_piped(&mut command).expect("it starts");
    running
        .wait_until_capturing(side, LIMIT)
        .expect("it captures");
    running
}

fn burst(folder: &Folder, side: &Side, line: &str) {
    let mut command = side.namespace.command(RINGTAP);
    command
        .args(line.split(' '))
        .args(["-i", &side.device])
        .current_dir(folder.root());
    let output = folder.finished(&mut command);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A burst, and then no packet and no signal: the program ends by itself.
fn captured(disk: &str, name: &str) {
    let is_plain = ["f.pcap", "f.pcapng"].contains(&name);
    let packets = if is_plain { FEW } else { MANY };
    let (folder, pair) = (Folder::new(packets), VethPair::new());
    let device = &pair.right.device;
    let line = format!("dump -i packet:{device} -B 64M -w disk/{name}");
    let running = start(&folder, &pair.right, &script(disk, &line));
    burst(&folder, &pair.left, "send -r in.pcap --topspeed");
    let output = running.wait(LIMIT).expect("it ends by itself");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    compare(&folder, name, &text);
}

fn records_of(folder: &Folder, name: &str) -> u64 {
    let path: PathBuf = folder.path("kept").join(name);
    let lines = || {
        let text = fs::read_to_string(&path).expect("a file");
        assert!(text.ends_with('\n'), "it ends with a whole line");
        text.lines().count() as u64
    };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => lines() - 1,
        Some("json") => lines(),
        // Without its end, nothing in it can be read.
        Some("parquet") => 0,
        _ => messages(&fs::read(&path).expect("a file")),
    }
}

/// Records in data sets of an IPFIX file: those of the template that is not about options.
fn messages(bytes: &[u8]) -> u64 {
    let at = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (mut rest, mut records) = (bytes, 0);
    let mut lengths = std::collections::HashMap::new();
    while !rest.is_empty() {
        assert_eq!(at(rest, 0), 10, "whole messages");
        let (message, behind) = rest.split_at(usize::from(at(rest, 2)));
        rest = behind;
        let mut sets = &message[16..];
        while !sets.is_empty() {
            let (set, behind) = sets.split_at(usize::from(at(sets, 2)));
            sets = behind;
            match at(set, 0) {
                2 => templates(&set[4..], &mut lengths),
                id if lengths.contains_key(&id) => {
                    records += ((set.len() - 4) / lengths[&id]) as u64;
                }
                _ => {}
            }
        }
    }
    records
}

/// Records the lengths of templates' records, if all fields have a fixed length.
fn templates(mut set: &[u8], lengths: &mut std::collections::HashMap<u16, usize>) {
    let at = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    while set.len() >= 4 {
        let (id, fields) = (at(set, 0), at(set, 2));
        set = &set[4..];
        let mut length = 0;
        for _ in 0..fields {
            length += usize::from(at(set, 2));
            let enterprise = at(set, 0) & 0x8000 != 0;
            set = &set[if enterprise { 8 } else { 4 }..];
        }
        lengths.insert(id, length);
    }
}

fn flows(name: &str) {
    let folder = Folder::new(1);
    // A second between two packets ends every flow.
    let traffic = Traffic {
        packets: 20_000,
        interval: 1_000_000_000,
        ..Traffic::default()
    };
    traffic
        .write_file(&folder.path("in.pcap"))
        .expect("a capture");
    let line = format!("flow --top 0 --inactive 1 --linger 0 -r in.pcap -w disk/{name}");
    let disk = "mount -t tmpfs -o size=96k tmpfs disk";
    let output = folder.finished(&mut unshare(&folder, &script(disk, &line)));
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("No space left"), "{text}");
    let told = number_before(&text, " records written");
    assert_eq!(told, records_of(&folder, name), "{text}");
    assert_eq!(told > 0, !name.ends_with("parquet"), "{text}");
}

/// All flows end in silence; no packet comes to report that the disk is full.
fn live_flows(threads: &str) {
    let (folder, pair) = (Folder::new(1), VethPair::new());
    let device = &pair.right.device;
    let line =
        format!("flow -i packet:{device} --threads {threads} --top 0 --inactive 1 -w disk/f.json");
    let disk = "mount -t tmpfs -o size=96k tmpfs disk";
    let running = start(&folder, &pair.right, &script(disk, &line));
    burst(&folder, &pair.left, "gen --flows 2000 -c 2000 --pps 100000");
    let output = running.wait(LIMIT).expect("it ends by itself");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("No space left"), "{text}");
    let told = number_before(&text, " records written");
    assert_eq!(told, records_of(&folder, "f.json"), "{text}");
    assert!(told > 0, "{text}");
}
