//! Command lines of tcpdump are accepted, or rejected with an alternative or a suggestion.

use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, Test, test};

use crate::program::{RINGTAP, bytes, dump, finished, stderr, succeeded};

pub(crate) fn tests() -> Vec<Test> {
    let tcpdump = &[Need::Tool("tcpdump")];
    vec![
        test("every_option_of_tcpdump_is_answered", tcpdump, options),
        test("count_prints_what_tcpdump_prints", tcpdump, count),
        test("precisions_are_those_of_tcpdump", tcpdump, precisions),
        test("lists_of_files_are_read", tcpdump, lists),
        test("indices_in_a_list_are_passed_over", &[], indices),
        test("what_was_meant_is_said", &[], meant),
        test("sizes_of_files_say_their_units", &[], sizes),
        test("an_unknown_user_is_a_usage_error", &[], unknown_user),
        test("help_that_cannot_be_printed_is_a_failure", &[], help),
        test("small_captures_have_small_indices", &[], small_index),
        test("altered_times_are_counted", &[], altered_times),
    ]
}

/// Returns files of this many packets each.
fn captures(packets: &[u64]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |(number, &packets): (usize, &u64)| {
        let path = folder.path().join(format!("{number}.pcap"));
        let traffic = Traffic {
            packets,
            ..Traffic::default()
        };
        traffic.write_file(&path).expect("a capture");
        path
    };
    let paths = packets.iter().enumerate().map(write).collect();
    (folder, paths)
}

fn unknown_user() {
    let (_folder, paths) = captures(&[1]);
    let read = ["-Z", "nosuchuser", "-r"];
    for command in ["dump", "flow"] {
        let mut ringtap = Command::new(RINGTAP);
        refused(
            ringtap.arg(command).args(read).arg(&paths[0]),
            &["nosuchuser"],
        );
    }
    for command in ["devices", "filter"] {
        refused(
            Command::new(RINGTAP).args([command, "-Z", "nosuchuser"]),
            &["nosuchuser"],
        );
    }
}

fn help() {
    for arguments in [&["--help"][..], &["dump", "--help"], &["--version"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = Command::new(RINGTAP);
        command.args(arguments).stdout(full.expect("Linux has it"));
        let output = command.output().expect("ringtap runs");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains("standard output: No space left"), "{text}");
        // The reader has closed the pipe.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(RINGTAP);
        let output = command.args(arguments).stdout(writer).output();
        let output = output.expect("ringtap runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(stderr(&output), "");
    }
}

/// Formats that cannot hold an invalid time get the equivalent valid one, which is reported once.
fn altered_times() {
    let (folder, paths) = captures(&[3]);
    let mut damaged = bytes(&paths[0]);
    // The fraction of the first packet's second, and that of the next one.
    let second =
        24 + 16 + u32::from_ne_bytes(damaged[32..36].try_into().expect("4 bytes")) as usize;
    for record in [24, second] {
        damaged[record + 4..record + 8].copy_from_slice(&4_000_000_000_u32.to_ne_bytes());
    }
    let path = folder.path().join("damaged.pcap");
    std::fs::write(&path, damaged).expect("a file");
    for (name, is_altered) in [("out.pcapng", true), ("out.pcap", false)] {
        let mut command = dump();
        command
            .arg("-r")
            .arg(&path)
            .arg("-w")
            .arg(folder.path().join(name));
        let text = stderr(&succeeded(finished(&mut command)));
        let said = text.matches("2 packets with an invalid time").count();
        assert_eq!(said, usize::from(is_altered), "{name}: {text}");
    }
    // A command that only uses the times cannot store them.
    for threads in ["1", "2"] {
        let mut flow = Command::new(RINGTAP);
        flow.args(["flow", "--top", "0", "--threads", threads, "-r"]);
        let text = stderr(&succeeded(finished(flow.arg(&path))));
        let said = text.matches("2 packets with an invalid time").count();
        assert_eq!(said, 1, "{threads}: {text}");
    }
}

fn small_index() {
    let (_folder, paths) = captures(&[3]);
    let output = succeeded(finished(dump().arg("-r").arg(&paths[0]).arg("--index")));
    let text = stderr(&output);
    assert!(text.contains(" 0 of 3 packets "), "{text}");
}

fn stdout(command: &mut Command) -> String {
    let output = succeeded(finished(command));
    String::from_utf8(output.stdout).expect("text")
}

fn refused(command: &mut Command, words: &[&str]) {
    let output = finished(command);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{command:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{command:?} lacks {word}: {text}");
    }
}

/// Returns a value for those options that take one.
fn value_of(option: &str) -> Option<&'static str> {
    Some(match option {
        "-B" | "-s" | "-c" | "-C" | "-G" | "-W" => "100",
        "-E" | "-M" | "-m" | "-T" | "-z" => "cat",
        "-j" => "host",
        "-Q" => "in",
        "-y" => "EN10MB",
        "-Z" => "nobody",
        "--time-stamp-precision" => "micro",
        "-F" | "-V" => "/dev/null",
        _ => return None,
    })
}

/// Each option of `tcpdump --help` is known: none is an unexpected argument, and unsupported ones have an
/// alternative.
fn options() {
    let help = finished(Command::new("tcpdump").arg("--help"));
    let help = String::from_utf8_lossy(&help.stdout).into_owned() + &stderr(&help);
    let flags = help
        .split("[-")
        .nth(1)
        .and_then(|flags| flags.split(']').next());
    let flags = flags.expect("a list of flags").chars();
    let mut options: Vec<String> = flags.map(|flag| format!("-{flag}")).collect();
    let words = help.split(['[', ']', ' ', '\t', '\n', '|']);
    let named = words.filter(|word| word.starts_with('-') && word.len() > 1);
    options.extend(
        named
            .filter(|word| word.starts_with("--") || word.len() == 2)
            .map(str::to_owned),
    );
    assert!(options.len() > 50, "{options:?}");
    let (_folder, paths) = captures(&[1]);
    let ends = [
        "-h",
        "-D",
        "-L",
        "--help",
        "--version",
        "-i",
        "-r",
        "-w",
        "-d",
    ];
    for option in options
        .iter()
        .filter(|option| !ends.contains(&option.as_str()))
    {
        let mut command = dump();
        command
            .arg("-r")
            .arg(&paths[0])
            .arg(option)
            .args(value_of(option));
        let output = finished(&mut command);
        let text = stderr(&output);
        assert!(!text.contains("unexpected argument"), "{option}: {text}");
        assert!(!text.contains("panicked"), "{option}: {text}");
        let status = output.status.code();
        let is_answered = match status {
            Some(0) => true,
            Some(2) => [
                "is not supported: ",
                "cannot be used with -r",
                "needs ",
                "required",
                "-V",
            ]
            .iter()
            .any(|word| text.contains(word)),
            _ => option == "-V",
        };
        assert!(is_answered, "{option}: {status:?} {text}");
    }
}

fn count() {
    let (_folder, paths) = captures(&[300, 1]);
    for path in &paths {
        for filter in ["", "udp", "tcp port 1"] {
            let counted = |command: &mut Command| {
                stdout(command.arg("-r").arg(path).args(["--count", filter]))
            };
            let expected = counted(&mut Command::new("tcpdump"));
            assert_eq!(counted(&mut dump()), expected, "{path:?} {filter}");
        }
    }
    let read = || {
        let mut command = dump();
        command.arg("-r").arg(&paths[0]);
        command
    };
    assert_eq!(stdout(read().args(["--count", "-c", "7"])), "7 packets\n");
    refused(
        read().args(["--count", "5"]),
        &["-c 5 stops after 5 packets"],
    );
    refused(read().args(["--count", "-w", "x"]), &["--count", "--write"]);
}

/// The time of the first line, and the first bytes of a file that is written.
fn precisions() {
    let (folder, paths) = captures(&[1]);
    let nanos = folder.path().join("nanos.pcap");
    let mut write = dump();
    write
        .arg("-r")
        .arg(&paths[0])
        .args(["--nano", "-w"])
        .arg(&nanos);
    succeeded(finished(&mut write));
    for path in [&paths[0], &nanos] {
        for precision in [
            &[][..],
            &["--micro"],
            &["--nano"],
            &["--time-stamp-precision", "micro"],
            &["--time-stamp-precision=nano"],
        ] {
            let time = |command: &mut Command| {
                let line = stdout(command.args(["-tt", "-n", "-r"]).arg(path).args(precision));
                line.split(' ').next().expect("a time").to_owned()
            };
            let expected = time(&mut Command::new("tcpdump"));
            assert_eq!(time(&mut dump()), expected, "{path:?} {precision:?}");
            // Without an option, a file keeps its precision here.
            if precision.is_empty() {
                continue;
            }
            let rewritten = |command: &mut Command| {
                let written = folder.path().join("written.pcap");
                command.arg("-r").arg(path).args(precision);
                succeeded(finished(command.arg("-w").arg(&written)));
                let bytes = bytes(&written);
                (bytes[..4].to_vec(), bytes[24..].to_vec())
            };
            let expected = rewritten(&mut Command::new("tcpdump"));
            assert_eq!(rewritten(&mut dump()), expected, "{path:?} {precision:?}");
        }
    }
}

/// Reads `-V`, which keeps the order of its lines, and names after `-r`.
fn lists() {
    let (folder, paths) = captures(&[3, 5]);
    let list = folder.path().join("list");
    let name = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let lines = format!("{}\n{}\n", name(&paths[1]), name(&paths[0]));
    std::fs::write(&list, lines).expect("a list");
    let printed = |command: &mut Command| stdout(command.args(["-nqt", "-V"]).arg(&list));
    let expected = printed(&mut Command::new("tcpdump"));
    assert_eq!(expected.lines().count(), 8);
    assert_eq!(printed(&mut dump()), expected);
    let mut behind = dump();
    behind.arg("-r").args(&paths).args(["--count", "ip"]);
    assert_eq!(stdout(&mut behind), "8 packets\n");
    std::fs::write(&list, "\n").expect("a list");
    let empty = finished(dump().arg("-V").arg(&list));
    assert_eq!(empty.status.code(), Some(1));
    assert!(stderr(&empty).contains("the list names no file"));
}

fn indices() {
    let (folder, paths) = captures(&[3, 5]);
    for path in &paths {
        succeeded(finished(dump().arg("-r").arg(path).arg("--index")));
    }
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    assert_eq!(names.len(), 4);
    let output = succeeded(finished(dump().arg("-r").args(&names).arg("--count")));
    assert_eq!(output.stdout, b"8 packets\n");
    assert_eq!(
        stderr(&output)
            .matches("skipped, because it is an index")
            .count(),
        2
    );
    let mut flow = Command::new(RINGTAP);
    flow.args(["flow", "--top", "0", "-r"]).args(&names);
    let text = stderr(&succeeded(finished(&mut flow)));
    assert!(text.contains("\n8 packets\n"), "{text}");
    // A list of -V is often made in the same way.
    let list = folder.path().join("list");
    let lines: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    std::fs::write(&list, lines.join("\n")).expect("a list");
    let output = succeeded(finished(dump().arg("-V").arg(&list).arg("--count")));
    assert_eq!(output.stdout, b"8 packets\n");
    // A crash can leave an index empty.
    let is_index = |path: &&PathBuf| path.extension().is_some_and(|end| end == "idx");
    for index in names.iter().filter(is_index) {
        std::fs::write(index, "").expect("an empty file");
    }
    let output = succeeded(finished(dump().arg("-r").args(&names).arg("--count")));
    assert_eq!(output.stdout, b"8 packets\n");
}

fn meant() {
    let (_folder, paths) = captures(&[1]);
    let file = paths[0].to_str().expect("UTF-8");
    let ringtap = |words: &[&str]| {
        let mut command = Command::new(RINGTAP);
        command.args(words);
        command
    };
    let cases: [(&[&str], &str); 9] = [
        (&["dump", file], "did you mean: ringtap dump -r "),
        (&["dump", "-i", "lo", file], "without -i reads it"),
        (&["-i", "lo", "udp"], "did you mean: ringtap dump -i lo udp"),
        (&[file], "did you mean: ringtap dump -r "),
        (&["dump", "lo"], "did you mean: ringtap dump -i lo"),
        (
            &["stat", "lo", "udp"],
            "did you mean: ringtap stat -i lo udp",
        ),
        (&["flow", "lo"], "did you mean: ringtap flow -i lo"),
        (&["flow", file], "did you mean: ringtap flow -r "),
        (
            &["send", "-i", "lo", file],
            "did you mean: ringtap send -i lo -r ",
        ),
    ];
    for (words, expected) in cases {
        refused(&mut ringtap(words), &[expected]);
    }
    refused(
        dump().args(["-i", "lo", "-I"]),
        &["iw dev DEV set monitor none"],
    );
}

fn sizes() {
    let (folder, paths) = captures(&[1]);
    let written = folder.path().join("written.pcap");
    let mut command = dump();
    command.arg("-r").arg(&paths[0]).arg("-w").arg(&written);
    refused(
        command.args(["-C", "0.5"]),
        &["alone it is millions of bytes", "write 500K"],
    );
    assert!(!written.exists());
}
