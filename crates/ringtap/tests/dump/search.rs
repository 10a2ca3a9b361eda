//! Searching in capture files: indices, ranges of times, several files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
use ringtap_savefile::{Interface, PcapOptions, PcapWriter};
use ringtap_testkit::{Need, Test, test};

use crate::program::{bytes, dump, figure, finished, frames, stderr, succeeded};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test(
            "an_index_beside_what_is_written",
            &[Need::Tool("tcpdump")],
            written,
        ),
        test("indices_of_files_that_are_there", &[], of_files),
        test("an_index_that_does_not_fit_is_told_of", &[], ignored),
        test(
            "an_index_that_is_no_file_is_not_opened",
            &[Need::Tool("mkfifo")],
            no_file,
        ),
        test("an_index_beside_each_of_several_files", &[], of_several),
        test("chunks_that_are_not_needed_are_not_read", &[], of_chunks),
        test("nothing_but_an_index_is_overwritten", &[], foreign),
        test("times_of_day", &[], times_of_day),
        test("a_list_of_files_is_read_in_time_order", &[], lists),
        test("what_no_index_can_be_made_of", &[], refused),
    ]
}

/// 2026-01-31T12:00:00Z.
const NOON: i64 = 1_769_860_800;

/// UDP from 10.0.0.X to port 53, a packet each ten milliseconds from `start` on; one in the middle
/// from 10.9.9.9.
fn traffic(path: &Path, start: i64, packets: i64) {
    let options = PcapOptions::for_interface(&Interface::new(LinkType::RAW, 65_535));
    let file = fs::File::create(path).expect("a file");
    let mut writer = PcapWriter::new(file, &options).expect("a header");
    for number in 0..packets {
        let source = match number == packets / 2 {
            true => [10, 9, 9, 9],
            false => [10, 0, 0, u8::try_from(number % 250).expect("a byte")],
        };
        let mut data = vec![0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17, 0, 0];
        data.extend(source);
        data.extend([192, 0, 2, 1, 0x30, 0x39, 0, 53, 0, 108, 0, 0]);
        data.resize(1000, 0x5a);
        let packet = Packet {
            timestamp: Timestamp::from_nanos(start * 1_000_000_000 + number * 10_000_000),
            len: 1000,
            interface: 0,
            flags: PacketFlags::default(),
            data: &data,
            process: None,
        };
        writer.write_packet(&packet).expect("a packet");
    }
    writer.finish().expect("a whole file");
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("traffic.pcap");
    (folder, path)
}

fn run(command: &mut Command) -> Output {
    succeeded(finished(command))
}

fn index_of(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(".idx");
    name.into()
}

fn written() {
    let (folder, path) = folder();
    traffic(&path, NOON, 12_000);
    let copy = folder.path().join("copy.pcapng");
    run(dump()
        .arg("-r")
        .arg(&path)
        .arg("-w")
        .arg(&copy)
        .arg("--index"));
    let index = bytes(&index_of(&copy)).len();
    assert!(
        (64..bytes(&copy).len() / 100).contains(&index),
        "{index} bytes"
    );
    let tcpdump = Command::new("tcpdump")
        .arg("-r")
        .arg(&path)
        .args(["-w", "-", "host 10.9.9.9"])
        .output()
        .expect("tcpdump runs");
    let search = |option: &str| {
        let output = run(dump()
            .arg("-r")
            .arg(&copy)
            .args([option, "-w", "-", "host 10.9.9.9"]));
        assert_eq!(
            figure(&stderr(&output), "packets read"),
            Some(12_000),
            "{option}"
        );
        output
    };
    let [by_index, without] = ["--nano", "--no-index"].map(search);
    assert_eq!(frames(&by_index.stdout).len(), 1);
    assert_eq!(frames(&by_index.stdout), frames(&tcpdump.stdout));
    assert_eq!(frames(&by_index.stdout), frames(&without.stdout));

    // Stretches without results, by the index, are not read: they may be corrupt, if the file's time does not
    // show it.
    let file = fs::File::options()
        .write(true)
        .open(&copy)
        .expect("the file");
    let modified = file
        .metadata()
        .and_then(|it| it.modified())
        .expect("its time");
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 3000], 2_000_000).expect("a write");
    file.set_modified(modified).expect("a time");
    assert_eq!(frames(&search("--nano").stdout).len(), 1);
    let whole =
        finished(
            dump()
                .arg("-r")
                .arg(&copy)
                .args(["--no-index", "-w", "-", "host 10.9.9.9"]),
        );
    assert_eq!(whole.status.code(), Some(1), "{}", stderr(&whole));
}

fn of_files() {
    let (folder, path) = folder();
    let second = folder.path().join("second.pcap");
    traffic(&path, NOON, 3000);
    traffic(&second, NOON, 2000);
    let output = run(dump()
        .arg("--index")
        .arg("-r")
        .arg(&path)
        .arg("-r")
        .arg(&second));
    assert!(output.stdout.is_empty());
    let told = stderr(&output);
    assert!(
        told.contains("traffic.pcap.idx: 3000 packets") && told.contains(": 2000"),
        "{told}"
    );
    let mut search = dump();
    search
        .arg("-r")
        .arg(&path)
        .arg("-r")
        .arg(&second)
        .args(["-t", "src 10.9.9.9"]);
    let output = run(&mut search);
    let line = "IP 10.9.9.9.12345 > 192.0.2.1.53: ";
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(
        found.lines().count() == 2 && found.lines().all(|it| it.starts_with(line)),
        "{found}"
    );
}

fn ignored() {
    let (_folder, path) = folder();
    traffic(&path, NOON, 3000);
    run(dump().arg("--index").arg("-r").arg(&path));
    let index = bytes(&index_of(&path));
    traffic(&path, NOON, 3001);
    let search = |what: &str| {
        let output = run(dump()
            .arg("-r")
            .arg(&path)
            .args(["-w", "-", "host 10.9.9.9"]));
        assert_eq!(frames(&output.stdout).len(), 1, "{what}");
        let told = stderr(&output);
        assert!(
            told.contains(".idx: ") && told.contains("searching without it"),
            "{told}"
        );
    };
    search("of the file as it was before");
    fs::write(index_of(&path), &index[..index.len() / 2]).expect("a write");
    search("half an index");
    fs::write(index_of(&path), [0; 100]).expect("a write");
    search("one that was not finished");
}

/// The search waited for somebody to write to the FIFO.
fn no_file() {
    let (_folder, path) = folder();
    traffic(&path, NOON, 10);
    succeeded(finished(Command::new("mkfifo").arg(index_of(&path))));
    let mut search = dump();
    search.arg("-r").arg(&path).args(["-w", "-"]);
    let output = run(search.arg("host 10.9.9.9"));
    assert_eq!(frames(&output.stdout).len(), 1);
}

fn times_of_day() {
    let (_folder, path) = folder();
    // From 23:59:50 in Berlin on.
    let start = NOON + 11 * 3600 - 10;
    traffic(&path, start, 2000);
    run(dump().arg("--index").arg("-r").arg(&path));
    let found = |from: &str, to: &str| {
        let mut command = dump();
        command.env("TZ", "Europe/Berlin").arg("-r").arg(&path);
        let output = run(command.args(["--from", from, "--to", to, "-w", "-"]));
        frames(&output.stdout).len()
    };
    assert_eq!(found("23:59:55", "23:59:57.5"), 250);
    assert_eq!(found("23:59:55", "00:00:05"), 1000, "past midnight");
    assert_eq!(found("2026-01-31T22:59:55Z", "2026-02-01T00:00:05"), 1000);
    assert_eq!(found(&start.to_string(), &format!("{}.5", start + 1)), 150);
    let mut standard = dump();
    standard
        .args(["-r", "-", "--from", "12:00:00"])
        .stdin(std::process::Stdio::null());
    let output = finished(&mut standard);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("with standard input"),
        "{}",
        stderr(&output)
    );
}

fn lists() {
    let (folder, path) = folder();
    let earlier = folder.path().join("z.pcap");
    traffic(&path, NOON, 3);
    traffic(&earlier, NOON - 60, 2);
    let seconds = |output: &Output| -> Vec<String> {
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| line[..10].to_owned()).collect()
    };
    let (late, early) = (NOON.to_string(), (NOON - 60).to_string());
    let filter = ["udp", "and", "port", "53"];
    let output = run(dump()
        .arg("-tt")
        .arg("-r")
        .args([&path, &earlier])
        .args(filter));
    assert_eq!(
        seconds(&output),
        [&early, &early, &late, &late, &late].map(String::clone)
    );
    let output = run(dump()
        .arg("-tt")
        .arg("-r")
        .arg(&path)
        .arg("-r")
        .arg(&earlier)
        .args(filter));
    assert_eq!(
        seconds(&output),
        [&late, &late, &late, &early, &early].map(String::clone)
    );
}

fn of_several() {
    let (folder, path) = folder();
    traffic(&path, NOON, 12_000);
    for name in ["f.pcap", "f.pcap.lz4"] {
        let first = folder.path().join(name);
        let mut command = dump();
        command.arg("-r").arg(&path).arg("-w").arg(&first);
        run(command.args(["-C", "4", "--index", "-z", "true"]));
        let number = |number: u32| PathBuf::from(format!("{}{number}", first.display()));
        let files = [first.clone(), number(1), number(2), number(3)];
        for file in &files {
            assert!(
                bytes(&index_of(file)).starts_with(b"RTINDEX\x01"),
                "{}",
                file.display()
            );
        }
        assert!(!index_of(&number(4)).exists());
        let output = run(dump()
            .arg("-r")
            .args(&files)
            .args(["-w", "-", "host 10.9.9.9"]));
        assert_eq!(frames(&output.stdout).len(), 1);
        let text = stderr(&output);
        assert!(!text.contains("without it"), "{text}");
        assert_eq!(figure(&text, "packets read"), Some(12_000), "{text}");
    }
}

/// In a file that is one frame, only the chunk with a possible result is decompressed.
fn of_chunks() {
    let (folder, path) = folder();
    traffic(&path, NOON, 12_000);
    for name in ["c.pcapng.zst", "c.pcapng.lz4", "c.pcapng.gz"] {
        let packed = folder.path().join(name);
        run(dump()
            .arg("-r")
            .arg(&path)
            .arg("-w")
            .arg(&packed)
            .arg("--index"));
        let search = |option: &str| {
            let mut command = dump();
            command.arg("-r").arg(&packed);
            finished(command.args([option, "-w", "-", "host 10.9.9.9"]))
        };
        let found = succeeded(search("--nano"));
        assert_eq!(frames(&found.stdout).len(), 1, "{name}");
        // The second and third of eight chunks are corrupt; the file's header is in the first.
        let file = fs::File::options()
            .write(true)
            .open(&packed)
            .expect("the file");
        let metadata = file.metadata().expect("its time");
        let spoilt = vec![0xff; usize::try_from(metadata.len() / 10).expect("a length")];
        let at = metadata.len() / 5;
        std::os::unix::fs::FileExt::write_all_at(&file, &spoilt, at).expect("a write");
        file.set_modified(metadata.modified().expect("a time"))
            .expect("a time");
        let found = succeeded(search("--nano"));
        assert_eq!(frames(&found.stdout).len(), 1, "{name}");
        assert_eq!(search("--no-index").status.code(), Some(1), "{name}");
    }
}

fn foreign() {
    let (_folder, path) = folder();
    traffic(&path, NOON, 100);
    let notes = index_of(&path);
    fs::write(&notes, "my notes").expect("a file");
    let output = finished(dump().arg("-r").arg(&path).arg("--index"));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("is not an index"),
        "{}",
        stderr(&output)
    );
    assert_eq!(bytes(&notes), b"my notes");
    // An index that was not finished is one.
    fs::write(&notes, b"RTINDEX\0\0\0").expect("a file");
    run(dump().arg("-r").arg(&path).arg("--index"));
    assert!(bytes(&notes).starts_with(b"RTINDEX\x01"));
}

fn refused() {
    let (_folder, path) = folder();
    traffic(&path, NOON, 3);
    let text = path.display().to_string();
    for arguments in [
        &["-r", &text, "-w", "-", "--index"][..],
        &["-r", &text, "--index", "udp"],
        &["-r", "-", "--index"],
        &["-i", "lo", "--index"],
    ] {
        let output = finished(dump().args(arguments).stdin(std::process::Stdio::null()));
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(stderr(&output).contains("--index"), "{}", stderr(&output));
    }
    assert!(!index_of(&path).exists());
}
