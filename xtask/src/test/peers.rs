//! The programs that tests compare with, installed from Debian where that is allowed.

use std::path::Path;
use std::process::Command;

use ringtap_testkit::need::find_tool;

use super::report::Outcome;
use crate::process;

/// What shows that a package is installed.
enum Sign {
    Program(&'static str),
    File(&'static str),
}

/// Debian's packages and what tests use of them.
const PEERS: [(&str, Sign); 12] = [
    ("ethtool", Sign::Program("ethtool")),
    ("gcc", Sign::Program("cc")),
    ("gzip", Sign::Program("gzip")),
    ("iproute2", Sign::Program("ip")),
    ("libpcap-dev", Sign::File("/usr/include/pcap/pcap.h")),
    ("lz4", Sign::Program("lz4")),
    ("netsniff-ng", Sign::Program("trafgen")),
    ("tcpdump", Sign::Program("tcpdump")),
    ("tcpreplay", Sign::Program("tcpreplay")),
    ("tshark", Sign::Program("tshark")),
    ("wireshark-common", Sign::Program("capinfos")),
    ("zstd", Sign::Program("zstd")),
];

/// Installs what is missing; where it cannot, the tests that need it are skipped one by one.
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
        .stdin(std::process::Stdio::null());
    command
}

fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists() && find_tool("apt-get").is_some()
}

/// Installing needs the user id 0, not capabilities.
fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
