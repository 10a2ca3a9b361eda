//! Captures over ssh, from their start to their end.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use ringtap_testkit::process::{Running, descendants, kill};

use super::LIMIT;
use super::server::{PORT, Server, said};

/// A name that no program has.
const NO_PROGRAM: &str = "--remote-program=/nonexistent/ringtap";

/// Ends a capture as Wireshark does.
fn stop(capture: Running) {
    capture.signal("TERM").expect("a signal");
    let output = capture.wait(LIMIT).expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
}

pub(crate) fn packets() {
    let mut server = Server::start();
    let file = server.file("capture.pcapng");
    let (v4, v6) = (server.pair.right.ipv4, server.pair.right.ipv6);
    for host in [v4.to_string(), v6.to_string()] {
        let host = format!("--remote-host={host}");
        let capture = server.begin(&mut server.capture(&file, &[&host]));
        let [own] = server.connections()[..] else {
            panic!("one connection: {:?}", server.connections());
        };
        let mut other = server.client(&server.file("bin/ssh").to_string_lossy());
        let port = PORT.to_string();
        other.args(["-p", &port, "-i"]).arg(server.file("key"));
        let ran = other.arg(v4.to_string()).arg("true").output();
        let ran = ran.expect("it runs");
        assert!(ran.status.success(), "{}", said(&ran));
        server.send();
        stop(capture);
        server.wait_until_alone();
        assert_eq!(server.count(&file, "udp"), server.datagrams, "{host}");
        assert_eq!(server.count(&file, &format!("tcp port {own}")), 0, "{host}");
        let others = format!("tcp port {PORT} and not port {own}");
        assert!(server.count(&file, &others) > 0, "{host}");
    }
    let capture = server.capture(&file, &["--extcap-capture-filter", "udp and len > 5000"]);
    let capture = server.begin(&mut { capture });
    server.send();
    stop(capture);
    assert_eq!(server.count(&file, ""), 0);
}

pub(crate) fn tshark() {
    let mut server = Server::start();
    let asked = Command::new("tshark").args(["-G", "folders"]).output();
    let folders = asked.expect("tshark runs").stdout;
    let folders = String::from_utf8_lossy(&folders).into_owned();
    let mut paths = folders
        .lines()
        .filter_map(|line| line.split_once("Extcap path:"));
    let place = paths.next_back().expect("a folder").1.trim().to_owned();
    // Root's tshark knows no other folder.
    let script = "mount --bind \"$0\" \"$1\" && shift && exec tshark \"$@\"";
    let mut command = server.client("unshare");
    let programs = server.file("extcap");
    fs::create_dir(&programs).expect("a folder");
    fs::rename(
        server.file("ringtap-extcap"),
        programs.join("ringtap-extcap"),
    )
    .expect("a link");
    command.args(["--mount", "sh", "-c", script]).arg(programs);
    command.arg(place).args(["-i", "ringtap-ssh"]);
    for (name, value) in server.options() {
        let name = name.replace('-', "");
        command.args(["-o", &format!("extcap.ringtap_ssh.{name}:{value}")]);
    }
    let count = server.datagrams.to_string();
    command.args([
        "-f",
        "udp",
        "-c",
        &count,
        "-n",
        "-T",
        "fields",
        "-e",
        "udp.length",
    ]);
    let tshark = server.begin(&mut command);
    server.send();
    let output = tshark.wait(LIMIT).expect("it ends");
    let lines = String::from_utf8_lossy(&output.stdout).lines().count();
    assert_eq!(lines as u64, server.datagrams, "{}", said(&output));
    server.wait_until_alone();
}

pub(crate) fn sudo() {
    let mut server = Server::start();
    let file = server.file("capture.pcapng");
    let mut command = server.capture(&file, &["--remote-sudo"]);
    let capture = server.begin(&mut command);
    let own = server.connections();
    server.send();
    stop(capture);
    server.wait_until_alone();
    assert_eq!(server.count(&file, "udp"), server.datagrams);
    assert_eq!(server.count(&file, &format!("tcp port {}", own[0])), 0);
}

pub(crate) fn ringtap_copied() {
    let mut server = Server::start();
    let file = server.file("capture.pcapng");
    let refused = server.capture(&file, &[NO_PROGRAM]).output();
    let refused = refused.expect("it runs");
    let text = said(&refused);
    assert!(!refused.status.success(), "{text}");
    assert!(text.contains("/nonexistent/ringtap not found"), "{text}");
    assert_eq!(server.leftovers(), [] as [std::path::PathBuf; 0]);

    let mut command = server.capture(&file, &[NO_PROGRAM, "--remote-copy"]);
    let capture = server.begin(&mut command);
    let [folder] = &server.leftovers()[..] else {
        panic!("one folder: {:?}", server.leftovers());
    };
    for path in [folder, &folder.join("ringtap")] {
        let mode = fs::metadata(path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{}", path.display());
    }
    server.send();
    stop(capture);
    server.wait_until_alone();
    assert_eq!(server.count(&file, "udp"), server.datagrams);
}

pub(crate) fn killed() {
    let mut server = Server::start();
    let file = server.file("capture.pcapng");
    let mut command = server.capture(&file, &[NO_PROGRAM, "--remote-copy"]);
    let capture = server.begin(&mut command);
    kill(&descendants(capture.id()));
    let output = capture.wait(LIMIT).expect("it ends");
    assert!(!output.status.success());
    server.wait_until_alone();

    // Without a farewell of this side, either.
    let mut command = server.capture(&file, &[]);
    let capture = server.begin(&mut command);
    kill(&[capture.id()]);
    server.wait_until_alone();
}

pub(crate) fn closed() {
    let server = Server::start();
    let fifo = server.file("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo runs").success());
    let mut command = server.capture(&fifo, &[]);
    let capture = Running::start_piped(&mut command).expect("it starts");
    let mut reader = Command::new("head");
    let reader = Running::start_piped(reader.args(["-c", "4"]).arg(&fifo)).expect("it starts");
    // It closes the pipe as soon as the file begins, which may be before anybody sees the capture.
    let section = reader.wait(LIMIT).expect("it ends").stdout;
    assert_eq!(section, [0x0a, 0x0d, 0x0d, 0x0a]);
    // There is no packet that would be written.
    let output = capture.wait(LIMIT).expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
    server.wait_until_alone();
}

pub(crate) fn errors() {
    let server = Server::start();
    let file = server.file("capture.pcapng");
    let stranger = format!("--sshkey={}", server.file("stranger").display());
    for (words, reason) in [
        (
            &["--remote-host=nowhere.invalid"][..],
            "nowhere.invalid: ssh: ",
        ),
        (&["--remote-host="], "--remote-host"),
        (&["--remote-port=2223"], "Connection refused"),
        (&[&stranger], "Permission denied"),
        (&["--remote-program=echo"], "\"dump -U "),
        (&["--remote-interface=veth9"], "veth9"),
        (
            &["--extcap-capture-filter", "tcp prt 80"],
            "invalid capture filter",
        ),
        (
            &["--buffer=4K", "--remote-program=/bin/false"],
            "ssh ended: exit status: 1",
        ),
    ] {
        let output = server.capture(&file, words).output().expect("it runs");
        let text = said(&output);
        assert!(!output.status.success(), "{words:?}: {text}");
        assert!(text.contains(reason), "{words:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{words:?}: {text}");
    }
    server.wait_until_alone();
}
