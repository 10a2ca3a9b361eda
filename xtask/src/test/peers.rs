//! Installs the programs that tests compare with, from Debian if that is allowed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringtap_testkit::need::find_tool;

use super::report::Outcome;
use crate::process;

/// Debian's packages, and a program or file of each, which shows that it is installed.
const PEERS: [(&str, &str); 52] = [
    ("arp-scan", "arp-scan"),
    ("arpwatch", "arpwatch"),
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("darkstat", "darkstat"),
    ("ethtool", "ethtool"),
    ("fish", "fish"),
    ("g++", "c++"),
    ("gcc", "cc"),
    ("gzip", "gzip"),
    ("iftop", "iftop"),
    ("iproute2", "ip"),
    ("iputils-ping", "ping"),
    ("libc6-dbg", "/usr/share/doc/libc6-dbg/copyright"),
    ("libpcap-dev", "/usr/include/pcap/pcap.h"),
    // cargo-public-api is built with it.
    ("libssl-dev", "/usr/include/openssl/ssl.h"),
    ("lz4", "lz4"),
    ("mandoc", "mandoc"),
    ("masscan", "masscan"),
    ("netsniff-ng", "trafgen"),
    ("nfdump", "nfpcapd"),
    ("nfdump-sflow", "sfcapd"),
    ("ngrep", "ngrep"),
    ("nmap", "nmap"),
    ("openssh-client", "ssh"),
    ("openssh-server", "sshd"),
    ("openssl", "openssl"),
    ("p0f", "p0f"),
    ("pkg-config", "pkg-config"),
    ("pmacct", "pmacctd"),
    ("podman", "podman"),
    ("prometheus", "prometheus"),
    ("protobuf-compiler", "protoc"),
    ("python3-pcapy", "/usr/share/doc/python3-pcapy/copyright"),
    (
        "python3-scapy",
        "/usr/lib/python3/dist-packages/scapy/__init__.py",
    ),
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("runc", "runc"),
    ("softflowd", "softflowd"),
    ("strace", "strace"),
    ("sudo", "sudo"),
    ("systemd", "systemd-cat"),
    ("tcpdump", "tcpdump"),
    ("tcpflow", "tcpflow"),
    ("tcpreplay", "tcpreplay"),
    ("tmux", "tmux"),
    ("tshark", "tshark"),
    ("valgrind", "valgrind"),
    ("wireguard-tools", "wg"),
    ("wireshark-common", "capinfos"),
    ("xfsprogs", "mkfs.xfs"),
    ("zsh", "zsh"),
    ("zstd", "zstd"),
];

/// A collector of flows that Debian does not have: its Go module, in the version that the tests know.
const GOFLOW: &str = "github.com/netsampler/goflow2/v2/cmd/goflow2@v2.2.6";
/// The time limit for building it.
const GO_LIMIT: Duration = Duration::from_secs(600);

/// Installs the collector with Go, if the machine has Go. Otherwise its tests are skipped.
pub(super) fn install_by_go() -> Outcome {
    let program = "goflow2";
    if find_tool(program).is_some() {
        return Outcome::Passed;
    }
    if find_tool("go").is_none() {
        return Outcome::Skipped(format!("needs go to install {program}"));
    }
    let mut install = Command::new("go");
    install.args(["install", GOFLOW]);
    match process::check(&mut process::limited(GO_LIMIT, &install)) {
        Ok(()) => Outcome::Passed,
        Err(reason) => Outcome::Skipped(format!("cannot install {program}: {reason}")),
    }
}

/// Installs missing programs. If that fails, the tests that need them are skipped one by one.
pub(super) fn install() -> Outcome {
    let missing = missing();
    if missing.is_empty() {
        return Outcome::Passed;
    }
    let names = missing.join(" ");
    println!("missing: {names}");
    if !is_debian() || !is_root() {
        return Outcome::Skipped(format!("needs root on Debian to install {names}"));
    }
    let mut get = apt_get();
    let mut update = apt_get();
    let installed = process::check(update.args(["-q", "update"])).and_then(|()| {
        let options = ["-q", "install", "-y", "--no-install-recommends"];
        process::check(get.args(options).args(&missing))
    });
    if let Err(reason) = disable(&missing) {
        println!("services of these packages may start with this machine: {reason}");
    }
    match installed {
        Ok(()) => Outcome::Passed,
        Err(reason) => Outcome::Skipped(format!("cannot install {names}: {reason}")),
    }
}

/// Disables the services that the packages bring, so that tests open no port of this machine at its next start.
fn disable(packages: &[&str]) -> Result<(), String> {
    let mut dpkg = Command::new("dpkg-query");
    // Without the services of the system itself.
    let packages = packages.iter().filter(|name| **name != "systemd");
    let output = dpkg.arg("--listfiles").args(packages).output();
    let output = output.map_err(|error| format!("dpkg-query: {error}"))?;
    let files = String::from_utf8_lossy(&output.stdout).into_owned();
    let units: BTreeSet<&str> = files.lines().filter_map(unit_of).collect();
    let mut failed = Ok(());
    for unit in units {
        let mut systemctl = Command::new("systemctl");
        systemctl.env("SYSTEMD_OFFLINE", "1");
        failed = failed.and(process::check(systemctl.args(["disable", unit])));
    }
    failed
}

/// Returns the unit of a file, if something can start it at the machine's start.
fn unit_of(file: &str) -> Option<&str> {
    let (folder, unit) = file.rsplit_once('/')?;
    let starts = [".service", ".socket", ".timer", ".path"];
    let is_one = folder.ends_with("lib/systemd/system")
        && starts.iter().any(|ending| unit.ends_with(ending))
        && !unit.contains('@');
    is_one.then_some(unit)
}

fn missing() -> Vec<&'static str> {
    let is_there = |sign: &str| match sign.starts_with('/') {
        true => Path::new(sign).exists(),
        false => find_tool(sign).is_some(),
    };
    let missing = PEERS.iter().filter(|(_, sign)| !is_there(sign));
    missing.map(|&(package, _)| package).collect()
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Some bring services, which are not to be started.
        .env("SYSTEMD_OFFLINE", "1")
        .stdin(std::process::Stdio::null());
    command
}

fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists() && find_tool("apt-get").is_some()
}

/// Returns whether the user id is 0: installing needs that, not capabilities.
fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_recognized() {
        for (file, expected) in [
            ("/lib/systemd/system/ssh.service", Some("ssh.service")),
            ("/usr/lib/systemd/system/ssh.socket", Some("ssh.socket")),
            ("/lib/systemd/system/ssh@.service", None),
            ("/usr/lib/systemd/user/podman.socket", None),
            ("/usr/sbin/sshd", None),
        ] {
            assert_eq!(unit_of(file), expected, "{file}");
        }
    }
}
