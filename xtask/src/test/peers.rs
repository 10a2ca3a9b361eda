//! Installs the programs that tests compare with, from Debian if that is allowed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringtap_testkit::need::find_tool;

use super::report::Outcome;
use crate::process;

/// A file of the package, which shows that it is installed.
enum Sign {
    Program(&'static str),
    File(&'static str),
}

/// Debian's packages and what tests use of them.
const PEERS: [(&str, Sign); 50] = [
    ("arp-scan", Sign::Program("arp-scan")),
    ("arpwatch", Sign::Program("arpwatch")),
    ("chromium", Sign::Program("chromium")),
    ("curl", Sign::Program("curl")),
    ("darkstat", Sign::Program("darkstat")),
    ("ethtool", Sign::Program("ethtool")),
    ("fish", Sign::Program("fish")),
    ("g++", Sign::Program("c++")),
    ("gcc", Sign::Program("cc")),
    ("gzip", Sign::Program("gzip")),
    ("iftop", Sign::Program("iftop")),
    ("iproute2", Sign::Program("ip")),
    ("iputils-ping", Sign::Program("ping")),
    (
        "libc6-dbg",
        Sign::File("/usr/share/doc/libc6-dbg/copyright"),
    ),
    ("libpcap-dev", Sign::File("/usr/include/pcap/pcap.h")),
    // cargo-public-api is built with it.
    ("libssl-dev", Sign::File("/usr/include/openssl/ssl.h")),
    ("lz4", Sign::Program("lz4")),
    ("mandoc", Sign::Program("mandoc")),
    ("masscan", Sign::Program("masscan")),
    ("netsniff-ng", Sign::Program("trafgen")),
    ("nfdump", Sign::Program("nfpcapd")),
    ("nfdump-sflow", Sign::Program("sfcapd")),
    ("ngrep", Sign::Program("ngrep")),
    ("nmap", Sign::Program("nmap")),
    ("openssh-client", Sign::Program("ssh")),
    ("openssh-server", Sign::Program("sshd")),
    ("openssl", Sign::Program("openssl")),
    ("p0f", Sign::Program("p0f")),
    ("pkg-config", Sign::Program("pkg-config")),
    ("pmacct", Sign::Program("pmacctd")),
    ("podman", Sign::Program("podman")),
    ("prometheus", Sign::Program("prometheus")),
    (
        "python3-pcapy",
        Sign::File("/usr/share/doc/python3-pcapy/copyright"),
    ),
    (
        "python3-scapy",
        Sign::File("/usr/lib/python3/dist-packages/scapy/__init__.py"),
    ),
    ("qemu-system-x86", Sign::Program("qemu-system-x86_64")),
    ("runc", Sign::Program("runc")),
    ("softflowd", Sign::Program("softflowd")),
    ("strace", Sign::Program("strace")),
    ("sudo", Sign::Program("sudo")),
    ("tcpdump", Sign::Program("tcpdump")),
    ("tcpflow", Sign::Program("tcpflow")),
    ("tcpreplay", Sign::Program("tcpreplay")),
    ("tmux", Sign::Program("tmux")),
    ("tshark", Sign::Program("tshark")),
    ("valgrind", Sign::Program("valgrind")),
    ("wireguard-tools", Sign::Program("wg")),
    ("wireshark-common", Sign::Program("capinfos")),
    ("xfsprogs", Sign::Program("mkfs.xfs")),
    ("zsh", Sign::Program("zsh")),
    ("zstd", Sign::Program("zstd")),
];

/// A collector of flows that Debian does not have: its Go module, in the version that the tests know.
const GOFLOW: (&str, &str) = (
    "goflow2",
    "github.com/netsampler/goflow2/v2/cmd/goflow2@v2.2.6",
);
/// The time limit for building it.
const GO_LIMIT: Duration = Duration::from_secs(600);

/// Installs the collector with Go, if the machine has Go. Otherwise its tests are skipped.
pub(super) fn install_by_go() -> Outcome {
    let (program, module) = GOFLOW;
    if find_tool(program).is_some() {
        return Outcome::Passed;
    }
    if find_tool("go").is_none() {
        return Outcome::Skipped(format!("needs go to install {program}"));
    }
    let mut install = Command::new("go");
    install.args(["install", module]);
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
    println!("missing: {}", missing.join(" "));
    if !is_debian() || !is_root() {
        return Outcome::Skipped(format!(
            "needs root on Debian to install {}",
            missing.join(" ")
        ));
    }
    let mut get = apt_get();
    let mut update = apt_get();
    let installed = process::check(update.args(["-q", "update"])).and_then(|()| {
        let options = ["-q", "install", "-y", "--no-install-recommends"];
        process::check(get.args(options).args(&missing))
    });
    match installed {
        Ok(()) => Outcome::Passed,
        Err(reason) => Outcome::Skipped(format!("cannot install {}: {reason}", missing.join(" "))),
    }
}

fn missing() -> Vec<&'static str> {
    let is_missing = |sign: &Sign| match sign {
        Sign::Program(name) => find_tool(name).is_none(),
        Sign::File(path) => !Path::new(path).exists(),
    };
    PEERS
        .iter()
        .filter(|(_, sign)| is_missing(sign))
        .map(|&(package, _)| package)
        .collect()
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
