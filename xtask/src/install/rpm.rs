//! The package `ringtap` for distributions with RPM: the files of the Debian package, at that family's places.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::extras::{DATE, seconds};
use super::{RINGTAP, write};
use crate::process::{self, at};

/// The program of Debian's package `rpm` that packs.
const RPMBUILD: &str = "rpmbuild";
/// Debian's name of an architecture, RPM's, and the folder of its libraries.
const ARCHITECTURES: [(&str, &str, &str); 2] =
    [("amd64", "x86_64", "lib64"), ("arm64", "aarch64", "lib64")];

/// The head of the specification; `@` marks what is filled in.
const HEAD: &str = "\
Name: ringtap
Version: @VERSION
Release: 1
Summary: Programmable packet capture
License: MIT OR Apache-2.0
Group: Applications/Internet
Requires(pre): shadow-utils
Recommends: wireshark-cli

%description
ringtap captures, filters, counts, stores, sends and summarizes network
packets, close to the kernel's own limit. It speaks the filter language of
tcpdump, reads and writes pcap and pcapng, exports NetFlow and IPFIX, shows
traffic live in the terminal and the browser, and reports where every lost
packet was lost.

%install
cp -a @ROOT/. %{buildroot}/

%pre
getent group ringtap >/dev/null || groupadd -r ringtap
getent passwd ringtap >/dev/null ||
    useradd -r -g ringtap -d / -s /sbin/nologin -c 'packets of ringtap' ringtap

%post
[ ! -d /run/systemd/system ] || systemctl daemon-reload || :

%preun
if [ \"$1\" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl stop 'ringtap-flow@*.service' 'ringtap-record@*.service' ringtap-web.service || :
fi

%postun
[ ! -d /run/systemd/system ] || systemctl daemon-reload || :

%files
%defattr(-,root,root,-)
";

/// Settings of rpmbuild: nothing of this machine and of this moment gets into the package.
const DEFINES: [&str; 8] = [
    "debug_package %{nil}",
    "__os_install_post %{nil}",
    "_build_id_links none",
    "_buildhost ringtap",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "build_mtime_policy clamp_to_source_date_epoch",
    "_binary_payload w6.xzdio",
];

/// Where RPM keeps its list of packages; Debian's program has another place.
const DATABASE: &str = "/var/lib/rpm";

/// The names of an architecture.
#[derive(Clone, Copy)]
pub(super) struct Names {
    architecture: &'static str,
    /// The folder of libraries, below the prefix.
    pub(super) libraries: &'static str,
}

/// Returns the names that RPM has for Debian's architecture. `None`, with a line that says why, if there can be no
/// package.
pub(super) fn names(debians: &str) -> Option<Names> {
    let known = ARCHITECTURES.iter().find(|known| known.0 == debians);
    let Some(&(_, architecture, libraries)) = known else {
        eprintln!("package: no .rpm, since the name of {debians} is not known");
        return None;
    };
    if !process::succeeds(Command::new(RPMBUILD).arg("--version")) {
        eprintln!("package: no .rpm, since rpmbuild is not installed (Debian's package rpm)");
        return None;
    }
    Some(Names {
        architecture,
        libraries,
    })
}

/// Packs the files below `root` into a package in the folder `out`.
pub(super) fn pack(root: &Path, names: Names, out: &Path) -> Result<PathBuf, String> {
    let explain = |error: std::io::Error| format!("rpmbuild: {error}");
    let work = tempfile::tempdir().map_err(explain)?;
    let mut spec = HEAD
        .replace("@VERSION", RINGTAP)
        .replace("@ROOT", &root.to_string_lossy());
    for (path, is_folder) in listed(root)? {
        let line = match (path.starts_with("/etc/"), is_folder) {
            (_, true) => format!("%dir {path}\n"),
            (true, false) => format!("%config(noreplace) {path}\n"),
            (false, false) => format!("{path}\n"),
        };
        spec += &line;
    }
    let file = work.path().join("ringtap.spec");
    write(&file, spec.as_bytes(), 0o644)?;
    let packed = work.path().join("packed");
    let mut build = Command::new(RPMBUILD);
    build.args(["-bb", "--quiet", "--target", names.architecture]);
    let top = format!("_topdir {}", work.path().display());
    let packages = format!("_rpmdir {}", packed.display());
    for define in [&*top, &packages].into_iter().chain(DEFINES) {
        build.args(["--define", define]);
    }
    let output = build.arg(&file).env(DATE, seconds().to_string()).output();
    let output = output.map_err(explain)?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("rpmbuild: {}: {reason}", output.status));
    }
    let name = format!("ringtap-{RINGTAP}-1.{}.rpm", names.architecture);
    let (from, to) = (packed.join(names.architecture).join(&name), out.join(&name));
    fs::copy(&from, &to).map_err(at(&from))?;
    Ok(to)
}

/// Returns the files below a folder, and the folders that belong to ringtap alone, as they will be installed.
fn listed(root: &Path) -> Result<Vec<(String, bool)>, String> {
    let mut found = Vec::new();
    for (path, metadata) in process::below(root, &[])? {
        let below = path.strip_prefix(root).unwrap_or(&path);
        let mut parts = below.iter().map(OsStr::as_encoded_bytes);
        let is_folder = metadata.is_dir();
        if !is_folder || parts.any(|part| part == b"ringtap" || part.ends_with(b".service.d")) {
            found.push((format!("/{}", below.display()), is_folder));
        }
    }
    found.sort();
    Ok(found)
}

/// Installs the package into an empty root, verifies it, runs it, and removes it again.
///
/// # Errors
/// A step fails, or something is left.
pub(super) fn check(package: &Path) -> Result<(), String> {
    let root = process::folder()?;
    let place = root.path().to_string_lossy().into_owned();
    let rpm = |words: &[&str], last: &str| {
        let mut rpm = Command::new("rpm");
        rpm.args(["--root", &place, "--dbpath", DATABASE]);
        process::check(rpm.args(words).arg(last))
    };
    let package = package.to_string_lossy();
    rpm(&["--install", "--nodeps", "--noscripts"], &package)?;
    // The root has no users and none of the libraries.
    let options = ["--verify", "--nodeps", "--nouser", "--nogroup"];
    rpm(&options, "ringtap")?;
    let program = root.path().join("usr/bin/ringtap");
    process::check(Command::new(program).arg("--version"))?;
    rpm(&["--erase", "--nodeps", "--noscripts"], "ringtap")?;
    for (path, _) in listed(root.path())? {
        if !path.starts_with(DATABASE) {
            return Err(format!("{path}: left by the package"));
        }
    }
    println!("the .rpm can be installed, verified, run and erased");
    Ok(())
}
