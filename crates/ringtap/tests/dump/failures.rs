//! Wrong usage, missing files, full disks, closed pipes: clear messages, the right exit status, and intact
//! output.

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringtap_testkit::pcap::Pcap;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, Test, test};

use crate::program::{LIMIT, RINGTAP, bytes, dump, figure, finished, frames, stderr, succeeded};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("usage_errors_exit_with_2", &[], usage_errors),
        test(
            "run_time_errors_exit_with_1",
            &[Need::Interfaces],
            run_time_errors,
        ),
        test("a_filter_error_shows_the_place", &[], filter_error),
        test("success_exits_with_0", &[], success),
        test("json_stats_of_a_file", &[], json_stats),
        test("a_full_device_is_reported", &[], full_device),
        test(
            "a_full_disk_keeps_whole_packets",
            &[Need::Root, Need::Tool("unshare")],
            full_disk,
        ),
        test("a_closed_pipe_is_reported", &[], closed_pipe),
        test("a_damaged_file_gives_what_is_whole", &[], damaged_file),
        test(
            "an_input_without_interface_leaves_no_output",
            &[],
            no_interface,
        ),
        test(
            "a_signal_ends_the_reading_of_a_silent_fifo",
            &[Need::Tool("mkfifo")],
            silent_fifo,
        ),
        test("several_files_are_read_in_turn", &[], several_files),
        test("output_over_input_is_refused", &[], same_file),
    ]
}

fn read(path: &Path) -> Command {
    let mut command = dump();
    command.arg("-r").arg(path);
    command
}

fn assert_fails(command: &mut Command, status: i32, words: &[&str]) {
    let output = finished(command);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{command:?}: {text}");
    for word in words {
        assert!(
            text.contains(word),
            "{command:?} says nothing of {word}: {text}"
        );
    }
}

fn usage_errors() {
    let (_folder, input) = Traffic::file_of(1);
    assert_fails(dump().arg("--no-such-option"), 2, &["--no-such-option"]);
    assert_fails(dump().args(["-i", "lo", "-r", "x.pcap"]), 2, &[]);
    assert_fails(read(&input).args(["-c", "0"]), 2, &["-c"]);
    assert_fails(read(&input).args(["-s", "many"]), 2, &["many"]);
    assert_fails(read(&input).arg("tcp port"), 2, &["port"]);
    assert_fails(
        Command::new(RINGTAP).arg("no-such-command"),
        2,
        &["no-such-command"],
    );
}

fn run_time_errors() {
    let (folder, input) = Traffic::file_of(1);
    let missing = folder.path().join("missing.pcap");
    assert_fails(&mut read(&missing), 1, &["missing.pcap", "No such file"]);
    let text = folder.path().join("text.pcap");
    std::fs::write(
        &text,
        "this is no capture, but long enough to have a header",
    )
    .expect("a file");
    assert_fails(&mut read(&text), 1, &["text.pcap"]);
    let empty = folder.path().join("empty.pcap");
    std::fs::write(&empty, "").expect("a file");
    assert_fails(&mut read(&empty), 1, &["empty.pcap"]);
    assert_fails(dump().args(["-i", "no-such-if"]), 1, &["no-such-if"]);
    assert_fails(
        read(&input).args(["-w", "/no/such/folder/x.pcap"]),
        1,
        &["/no/such/folder/x.pcap"],
    );
}

/// A pcapng file of a section only: there is no link type for the header of a pcap file. In pcapng it is
/// written as all others are.
fn no_interface() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("section.pcapng");
    let section = [
        [0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a],
        [1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
    ];
    std::fs::write(&input, [&section.concat()[..], &[28, 0, 0, 0]].concat()).expect("a file");
    let output = folder.path().join("output.pcap");
    assert_fails(read(&input).arg("-w").arg(&output), 1, &["interface"]);
    assert!(!output.exists(), "nothing was made");
    std::fs::write(&output, "what was there").expect("a file");
    assert_fails(read(&input).arg("-w").arg(&output), 1, &["interface"]);
    assert_eq!(bytes(&output), b"what was there");
    let packed = folder.path().join("output.pcapng.lz4");
    assert_fails(read(&input).arg("-w").arg(&packed), 1, &["interface"]);
    let lz4 = 0x184d_2204_u32.to_le_bytes();
    assert!(bytes(&packed).starts_with(&lz4), "it is compressed");
    let (_folder, good) = Traffic::file_of(1);
    std::fs::write(&output, vec![0; 100_000]).expect("a file");
    succeeded(finished(read(&good).arg("-w").arg(&output)));
    assert_eq!(bytes(&output), bytes(&good));
}

fn filter_error() {
    let (_folder, input) = Traffic::file_of(1);
    let output = finished(read(&input).arg("tcp port 80 and and udp"));
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("tcp port 80 and and udp"),
        "the expression is shown: {text}"
    );
    assert!(text.contains('^'), "the place is marked: {text}");
}

fn success() {
    let (_folder, input) = Traffic::file_of(3);
    let output = succeeded(finished(&mut read(&input)));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3);
    succeeded(finished(Command::new(RINGTAP).arg("--version")));
    succeeded(finished(dump().arg("--help")));
}

fn json_stats() {
    let (_folder, input) = Traffic::file_of(40);
    let output = succeeded(finished(read(&input).args([
        "--json-stats",
        "-w",
        "-",
        "-c",
        "30",
    ])));
    let text = stderr(&output);
    let line = text
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("a JSON object");
    let json: serde_json::Value = serde_json::from_str(line).expect("valid JSON");
    assert_eq!(
        (&json["engine"], &json["captured"]),
        (&"file".into(), &30.into())
    );
    let sum: usize = frames(&output.stdout).iter().map(|frame| frame.len()).sum();
    assert_eq!(json["bytes"], sum);
    let places = json["dropped"].as_object().expect("an object");
    let lost = places
        .values()
        .filter(|count| !count.is_null() && **count != 0);
    assert_eq!(lost.count(), 0, "a file loses nothing: {line}");
}

/// Every write to this device fails as on a full disk.
fn full_device() {
    let (_folder, input) = Traffic::file_of(20_000);
    assert_fails(
        read(&input).args(["-w", "/dev/full"]),
        1,
        &["/dev/full", "No space left"],
    );
    let output = read(&input).stdout(full()).stderr(Stdio::piped()).output();
    let output = output.expect("ringtap runs");
    assert_eq!(
        output.status.code(),
        Some(1),
        "printing: {}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("No space left"),
        "{}",
        stderr(&output)
    );
}

fn full() -> std::fs::File {
    std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full")
}

/// Uses a disk of one megabyte in a mount namespace, and a capture of several.
fn full_disk() {
    let (folder, input) = Traffic::file_of(20_000);
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let kept = folder.path().join("kept.pcap");
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs {disk}; {RINGTAP} dump -r {input} -w {disk}/out.pcap; \
         status=$?; cp {disk}/out.pcap {kept}; exit $status",
        disk = disk.display(),
        input = input.display(),
        kept = kept.display(),
    );
    let output = finished(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("No space left"), "{text}");
    let (kept, input) = (bytes(&kept), bytes(&input));
    let pcap = Pcap::parse(&kept).expect("a header");
    let whole: Vec<_> = pcap
        .records()
        .map_while(Result::ok)
        .map(|record| record.data)
        .collect();
    assert!(
        !whole.is_empty() && whole.len() < 20_000,
        "{} packets",
        whole.len()
    );
    assert!(
        frames(&input).starts_with(&whole),
        "what was written is intact"
    );
    assert!(
        text.contains(&whole.len().to_string()),
        "{} packets: {text}",
        whole.len()
    );
}

fn closed_pipe() {
    let (_folder, input) = Traffic::file_of(50_000);
    for arguments in [&["-w", "-"][..], &[]] {
        let mut child = read(&input)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ringtap starts");
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut [0; 100]).expect("the beginning");
        drop(stdout);
        let output = child.wait_with_output().expect("an end");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(
            text.to_lowercase().contains("pipe"),
            "{arguments:?}: {text}"
        );
    }
}

fn damaged_file() {
    let (folder, input) = Traffic::file_of(100);
    let whole = bytes(&input);
    let damaged = folder.path().join("damaged.pcap");
    std::fs::write(&damaged, &whole[..whole.len() - 7]).expect("a file");
    let output = finished(read(&damaged).args(["-w", "-"]));
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(frames(&output.stdout), frames(&whole)[..99]);
    assert!(text.contains("offset"), "the place is named: {text}");
}

/// The FIFO's writer is silent: only the signal ends the reading.
fn silent_fifo() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [fifo, written] = ["fifo", "out.pcap"].map(|name| folder.path().join(name));
    succeeded(finished(Command::new("mkfifo").arg(&fifo)));
    let mut command = dump();
    command.arg("-r").arg(&fifo).arg("-w").arg(&written);
    let running = Running::start_piped(&mut command).expect("ringtap starts");
    let mut writer = std::fs::File::options()
        .write(true)
        .open(&fifo)
        .expect("a reader");
    let (_folder, path) = Traffic::file_of(2);
    writer.write_all(&bytes(&path)).expect("a capture");
    let deadline = Instant::now() + LIMIT;
    // Once something is written, signals are watched.
    while std::fs::metadata(&written).map_or(0, |data| data.len()) < 40 {
        assert!(Instant::now() < deadline, "nothing is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.signal("INT").expect("a signal");
    let output = succeeded(running.wait(LIMIT).expect("it ends"));
    assert_eq!(figure(&stderr(&output), "packets captured"), Some(2));
    drop(writer);
}

fn several_files() {
    let (_first, one) = Traffic::file_of(10);
    let (_second, two) = Traffic::file_of(25);
    let output = succeeded(finished(read(&one).arg("-r").arg(&two).args(["-w", "-"])));
    let expected = [frames(&bytes(&one)).concat(), frames(&bytes(&two)).concat()].concat();
    assert_eq!(frames(&output.stdout).len(), 35);
    assert_eq!(frames(&output.stdout).concat(), expected);
}

fn same_file() {
    let (_folder, input) = Traffic::file_of(10);
    let before = bytes(&input);
    assert_fails(read(&input).arg("-w").arg(&input), 2, &["sent.pcap"]);
    assert_eq!(bytes(&input), before, "the input is untouched");
    let index = input.with_file_name("f.idx");
    std::fs::rename(&input, &index).expect("renamed");
    let mut command = read(&index);
    command
        .args(["--index", "-w"])
        .arg(index.with_extension(""));
    assert_fails(&mut command, 2, &["f.idx: is both read and written"]);
    assert_eq!(bytes(&index), before, "the input is untouched");
    // Also if it is the second of several outputs.
    let (folder, input) = Traffic::file_of(1000);
    let (first, second) = (folder.path().join("f"), folder.path().join("f1"));
    std::fs::rename(&input, &second).expect("renamed");
    let before = bytes(&second);
    let mut command = read(&second);
    command.args(["-C", "1k", "-w"]).arg(&first);
    assert_fails(&mut command, 2, &["f1: is both read and written"]);
    assert_eq!(bytes(&second), before, "the input is untouched");
}
