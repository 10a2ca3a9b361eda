//! `cargo xtask corpus`: captures for the tests, out of source packages of Debian.
//!
//! apt fetches the archives, with its own lists and cache, so the system is unchanged and no privileges are
//! needed. Committed hashes are compared. Only the capture files go to the user's cache
//! ([`corpus::fetched`]). The packages of one release are used everywhere, so that everybody has the same
//! files. Nothing is redistributed, and existing files are not fetched again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use ringtap_testkit::corpus;
use ringtap_testkit::need::find_tool;

use crate::process::{self, at};

/// Debian 12. Its archives are those of many releases: nDPI's are the same in Debian 13.
const SUITE: &str = "bookworm";
/// Unless this machine's `apt` has another setting.
const MIRROR: &str = "http://deb.debian.org/debian/";
/// Keys of the archive, by the names that they have had.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];
/// The time limit for fetching one archive.
const LIMIT: Duration = Duration::from_secs(600);
/// The file beside the captures of a package that says which version they are of.
const VERSION: &str = ".version";

/// A source package with captures.
struct Package {
    name: &'static str,
    version: &'static str,
    archive: &'static str,
    sha256: &'static str,
    /// The folder within the archive.
    folder: &'static str,
    /// Capture files that are kept: those below [`LARGEST`], and these.
    captures: usize,
    large: &'static [&'static str],
}

/// Bytes; the many megabytes of the largest captures would only make the tests slow.
const LARGEST: u64 = 1_000_000;

const PACKAGES: [Package; 2] = [
    Package {
        name: "tcpdump",
        version: "4.99.3-1",
        archive: "tcpdump_4.99.3.orig.tar.gz",
        sha256: "ad75a6ed3dc0d9732945b2e5483cb41dc8b4b528a169315e499c6861952e73b3",
        folder: "tcpdump-4.99.3/tests",
        captures: 667,
        large: &[],
    },
    Package {
        name: "ndpi",
        version: "4.2-2",
        archive: "ndpi_4.2.orig.tar.gz",
        sha256: "e54ce8fe13adc5d747be7553513657fae78f796e0bd459e122c280cc06ce4daf",
        folder: "nDPI-4.2/tests/pcap",
        captures: 240,
        large: &["netflix.pcap", "reddit.pcap", "tor.pcap"],
    },
];

/// Why there is no corpus.
#[derive(Debug)]
pub(crate) enum Missing {
    /// Something that this machine lacks, such as a network.
    Unreachable(String),
    /// The archive differs from the expected one.
    Wrong(String),
}

/// Fetches missing captures, and returns their folder.
pub(crate) fn run() -> ExitCode {
    let fetched = fetch().map(|folder| println!("{}", folder.display()));
    let reason = |(Missing::Unreachable(reason) | Missing::Wrong(reason))| reason;
    process::exit("corpus", fetched.map_err(reason))
}

/// Returns the folder of the complete corpus.
///
/// # Errors
/// As [`Missing`] says; packages that came before are kept.
pub(crate) fn fetch() -> Result<PathBuf, Missing> {
    let homeless = || Missing::Unreachable("the user has no home folder".to_owned());
    let folder = corpus::fetched().ok_or_else(homeless)?;
    let missing = PACKAGES.iter().filter(|package| !package.is_in(&folder));
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return Ok(folder);
    }
    for tool in ["apt-get", "tar", "sha256sum"] {
        if find_tool(tool).is_none() {
            return Err(Missing::Unreachable(format!("needs the program {tool}")));
        }
    }
    fs::create_dir_all(&folder).map_err(unreachable_at(&folder))?;
    // Beside the result, which is then moved into place.
    let work = tempfile::tempdir_in(&folder).map_err(unreachable_at(&folder))?;
    let apt = Apt::new(work.path())?;
    apt.run(&["update"])?;
    for package in missing {
        println!("{} {}: {}", package.name, package.version, package.archive);
        package.fetch(&apt, work.path(), &folder)?;
    }
    Ok(folder)
}

impl Package {
    fn is_in(&self, corpus: &Path) -> bool {
        let version = fs::read_to_string(corpus.join(self.name).join(VERSION));
        version.is_ok_and(|version| version.trim() == self.version)
    }

    fn fetch(&self, apt: &Apt<'_>, work: &Path, corpus: &Path) -> Result<(), Missing> {
        let source = format!("{}={}", self.name, self.version);
        apt.run(&["source", "--download-only", "--tar-only", &source])?;
        let archive = work.join(self.archive);
        let sum = text_of(Command::new("sha256sum").arg(&archive))?;
        if sum.split(' ').next() != Some(self.sha256) {
            let (archive, sha256) = (self.archive, self.sha256);
            let reason = format!("{archive}: another SHA-256 than {sha256}: {sum}");
            return Err(Missing::Wrong(reason));
        }
        let unpacked = work.join("unpacked").join(self.name);
        fs::create_dir_all(&unpacked).map_err(unreachable_at(&unpacked))?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--no-same-owner", "--file"]);
        tar.arg(&archive).arg("--directory").arg(&unpacked);
        process::check(tar.arg(self.folder)).map_err(Missing::Wrong)?;
        self.keep(&unpacked.join(self.folder), corpus)
    }

    fn takes(&self, entry: &fs::DirEntry) -> std::io::Result<bool> {
        let is_named = self.large.iter().any(|name| entry.file_name() == *name);
        let is_small = entry.metadata()?.len() < LARGEST;
        Ok(corpus::is_capture(&entry.path()) && (is_small || is_named))
    }

    /// Moves only the captures to the folder where the tests find them.
    fn keep(&self, unpacked: &Path, corpus: &Path) -> Result<(), Missing> {
        let explain = unreachable_at(corpus);
        let kept = unpacked.join(".kept");
        fs::create_dir_all(&kept).map_err(explain)?;
        let mut captures = 0;
        for entry in fs::read_dir(unpacked).map_err(explain)? {
            let entry = entry.map_err(explain)?;
            // A link could lead anywhere.
            let is_file = entry.file_type().map_err(explain)?.is_file();
            if is_file && self.takes(&entry).map_err(explain)? {
                fs::rename(entry.path(), kept.join(entry.file_name())).map_err(explain)?;
                captures += 1;
            }
        }
        if captures != self.captures {
            let reason = format!("{}: {captures} captures, not {}", self.name, self.captures);
            return Err(Missing::Wrong(reason));
        }
        fs::write(kept.join(VERSION), self.version).map_err(explain)?;
        let place = corpus.join(self.name);
        if place.exists() {
            fs::remove_dir_all(&place).map_err(explain)?;
        }
        fs::rename(&kept, &place).map_err(explain)
    }
}

/// apt with lists, cache and sources of its own, and the system's proxies and certificates.
struct Apt<'w> {
    work: &'w Path,
    configuration: PathBuf,
}

impl<'w> Apt<'w> {
    fn new(work: &'w Path) -> Result<Self, Missing> {
        let keyring = KEYRINGS.iter().find(|path| Path::new(path).exists());
        let keyring = keyring.ok_or_else(|| {
            Missing::Unreachable("needs Debian's keys (debian-archive-keyring)".to_owned())
        })?;
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(work.join(folder)).map_err(unreachable_at(work))?;
        }
        let mirror = mirror();
        let configuration = work.join("apt.conf");
        let sources = format!("deb-src [signed-by={keyring}] {mirror} {SUITE} main\n");
        let settings = (configuration.clone(), settings(work));
        for (path, text) in [(work.join("sources.list"), sources), settings] {
            fs::write(&path, text).map_err(unreachable_at(&path))?;
        }
        Ok(Self {
            work,
            configuration,
        })
    }

    fn run(&self, words: &[&str]) -> Result<(), Missing> {
        let mut get = Command::new("apt-get");
        get.current_dir(self.work)
            .arg("--quiet")
            .arg("--config-file")
            .arg(&self.configuration)
            // If a list cannot be fetched, it is an error, not only a warning.
            .args(["--option", "APT::Update::Error-Mode=any"])
            .args(words);
        let mut get = process::limited(LIMIT, &get);
        process::check(&mut get).map_err(Missing::Unreachable)
    }
}

/// Returns settings that are read after the system's own, whose hooks are for the system's own lists.
fn settings(work: &Path) -> String {
    let work = work.display();
    format!(
        "#clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         Dir::Etc::SourceList \"{work}/sources.list\";\n\
         Dir::Etc::SourceParts \"/dev/null\";\n\
         Dir::State::Lists \"{work}/lists\";\n\
         Dir::State::status \"/dev/null\";\n\
         Dir::Cache \"{work}/cache\";\n\
         APT::Sandbox::User \"\";\n\
         Acquire::Languages \"none\";\n"
    )
}

/// Returns the mirror that this machine's apt uses.
fn mirror() -> String {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)"]);
    let lines = text_of(&mut targets).unwrap_or_default();
    mirror_in(&lines).unwrap_or(MIRROR).to_owned()
}

fn mirror_in(lines: &str) -> Option<&str> {
    lines
        .lines()
        .find_map(|line| line.strip_prefix("Debian|Debian|"))
        .filter(|uri| !uri.is_empty())
}

fn text_of(command: &mut Command) -> Result<String, Missing> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let program = Path::new(command.get_program());
    let output = output.map_err(unreachable_at(program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Missing::Unreachable(at(program)(output.status)))
}

fn unreachable_at(path: &Path) -> impl Fn(std::io::Error) -> Missing + Copy + use<'_> {
    move |error| Missing::Unreachable(at(path)(error))
}

#[cfg(test)]
mod tests {
    use super::{Missing, PACKAGES, Package, VERSION, mirror_in};

    #[test]
    fn the_mirror_is_the_main_archives() {
        let lines = "Debian|Debian-Security|http://s/\nDebian|Debian|http://m/debian/\n";
        assert_eq!(mirror_in(lines), Some("http://m/debian/"));
        assert_eq!(mirror_in("Ubuntu|Ubuntu|http://u/\n"), None);
    }

    /// Only captures are kept, no links, and only where all are there.
    #[test]
    fn captures_and_nothing_else_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (unpacked, corpus) = (folder.path().join("in"), folder.path().join("out"));
        for folder in [&unpacked, &corpus] {
            std::fs::create_dir(folder).expect("a folder");
        }
        let package = |captures| Package {
            captures,
            ..PACKAGES[0]
        };
        let lay_out = || {
            for name in ["a.pcap", "b.pcapng", "c.cap", "c.out", "TESTrun"] {
                std::fs::write(unpacked.join(name), "x").expect("a file");
            }
        };
        lay_out();
        std::os::unix::fs::symlink("/etc/passwd", unpacked.join("d.pcap")).expect("a link");
        let refused = package(4).keep(&unpacked, &corpus);
        assert!(matches!(refused, Err(Missing::Wrong(_))), "{refused:?}");
        assert!(!package(4).is_in(&corpus));
        std::fs::remove_dir_all(unpacked.join(".kept")).expect("a folder");
        lay_out();
        package(3).keep(&unpacked, &corpus).expect("kept");
        let mut names: Vec<_> = std::fs::read_dir(corpus.join(PACKAGES[0].name))
            .expect("the captures")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, [VERSION, "a.pcap", "b.pcapng", "c.cap"]);
        assert!(package(3).is_in(&corpus));
    }
}
