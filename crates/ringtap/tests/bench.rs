//! `ringtap bench`: finds `ringtap-bench` and runs it with unchanged arguments.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use ringtap_testkit::{suite, test};

fn main() -> ExitCode {
    suite(vec![
        test("arguments_are_passed_on", &[], arguments),
        test("the_program_beside_comes_before_path", &[], beside),
        test("relative_folders_of_path_are_not_searched", &[], relative),
        test("a_missing_program_is_named", &[], missing),
        test("a_program_that_cannot_run_is_named", &[], broken),
        test("bench_is_listed", &[], listed),
    ])
}

/// Returns a folder with ringtap, alone. It is on the file system of the build, for a hard link: this process
/// must not hold a program open for writing while another test starts one.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let ringtap = folder.path().join("ringtap");
    std::fs::hard_link(env!("CARGO_BIN_EXE_ringtap"), ringtap).expect("a link");
    folder
}

/// Puts a `ringtap-bench` into a folder that prints its arguments, each in brackets, and ends with 7.
fn put_bench(folder: &Path, says: &str) {
    let script = folder.join("script");
    let text = format!("#!/bin/sh\necho {says}\nprintf '[%s]' \"$@\"\nexit 7\n");
    std::fs::write(&script, text).expect("written");
    let mut install = Command::new("install");
    install.args(["-m", "755"]).arg(&script);
    let status = install.arg(folder.join("ringtap-bench")).status();
    assert!(status.expect("install runs").success());
}

fn bench(folder: &Path, path: &str, arguments: &[&OsStr]) -> Output {
    let mut command = Command::new(folder.join("ringtap"));
    command.arg("bench").args(arguments).env("PATH", path);
    command.current_dir(folder).output().expect("ringtap runs")
}

/// Returns the path by which ringtap knows itself.
fn own(folder: &Path) -> PathBuf {
    let path = folder.join("ringtap").canonicalize();
    path.expect("a path")
}

fn arguments() {
    let folder = installed();
    put_bench(folder.path(), "ran");
    let lines: [&[&[u8]]; 8] = [
        &[],
        &[b"clock", b"--quick", b"--case", b"last tick"],
        &[b"--help"],
        &[b"-h"],
        &[b"--version"],
        &[b"--", b"--list"],
        &[b"help", b"--no-such-option", b"-x"],
        &[b"--out", b"\xff\n ", b""],
    ];
    for line in lines {
        let words: Vec<&OsStr> = line.iter().map(|word| OsStr::from_bytes(word)).collect();
        let done = bench(folder.path(), "/nowhere", &words);
        let begin = format!("ran\n[--ringtap][{}]", own(folder.path()).display());
        let mut expected = begin.into_bytes();
        for word in line {
            expected.extend([b"[", *word, b"]"].concat());
        }
        assert_eq!(done.status.code(), Some(7), "{words:?}: {done:?}");
        assert_eq!(done.stdout, expected, "{words:?}: {done:?}");
        assert!(done.stderr.is_empty(), "{words:?}: {done:?}");
    }
}

fn beside() {
    let (folder, other) = (installed(), installed());
    put_bench(other.path(), "in-path");
    let path = format!("/nowhere:{}", other.path().display());
    let done = bench(folder.path(), &path, &[]);
    assert!(done.stdout.starts_with(b"in-path\n"), "{done:?}");
    // It measures the program that was called, not the one beside it.
    let ringtap = own(folder.path());
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains(&*ringtap.to_string_lossy()), "{done:?}");

    put_bench(folder.path(), "beside");
    let done = bench(folder.path(), &path, &[]);
    assert!(done.stdout.starts_with(b"beside\n"), "{done:?}");
}

fn relative() {
    let folder = installed();
    let below = folder.path().join("below");
    std::fs::create_dir(&below).expect("a folder");
    put_bench(&below, "ran");
    for path in ["below", "", ":", "./below"] {
        let done = bench(folder.path(), path, &[]);
        assert_eq!(done.status.code(), Some(1), "{path}: {done:?}");
    }
}

fn missing() {
    let folder = installed();
    let done = bench(folder.path(), "/nowhere", &[OsStr::new("--help")]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(done.stdout.is_empty(), "{done:?}");
    let text = String::from_utf8_lossy(&done.stderr);
    let beginning = format!(
        "ringtap bench: the program ringtap-bench is not installed beside {} or in PATH; ",
        own(folder.path()).display()
    );
    assert!(text.starts_with(&beginning), "{text}");
    assert!(
        text.contains("cargo build --release -p ringtap-bench"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

fn broken() {
    let folder = installed();
    std::fs::write(folder.path().join("ringtap-bench"), "no program").expect("written");
    let done = bench(folder.path(), "/nowhere", &[]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(
        text.contains("/ringtap-bench: ") && text.contains("denied"),
        "{text}"
    );
}

fn listed() {
    let folder = installed();
    let help = Command::new(folder.path().join("ringtap"))
        .arg("--help")
        .output();
    let help = help.expect("ringtap runs").stdout;
    let help = String::from_utf8_lossy(&help);
    assert!(
        help.lines().any(|line| line.starts_with("  bench ")),
        "{help}"
    );
}
