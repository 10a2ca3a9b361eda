//! Manual pages, completion for shells, and units of systemd, as files below a prefix.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::{Layout, RINGTAP, write};
use crate::process::{self, at};

/// The date of pages and archives, in seconds since the epoch.
pub(super) const DATE: &str = "SOURCE_DATE_EPOCH";

/// Shells, and where they look for completion below a prefix.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/ringtap"),
    ("zsh", "share/zsh/vendor-completions/_ringtap"),
    ("fish", "share/fish/vendor_completions.d/ringtap.fish"),
];

/// Builds ringtap, and writes the manual pages into a folder.
pub(crate) fn man(folder: &str) -> ExitCode {
    let repository = ringtap_testkit::repository();
    let mut cargo = process::cargo(&repository);
    cargo.args(["build", "--quiet", "--package", "ringtap"]);
    let written = process::check(&mut cargo)
        .and_then(|()| process::built_program("debug", "ringtap"))
        .and_then(|program| pages(&program, Path::new(folder)));
    process::exit("man", written)
}

/// Writes all pages: those of the commands, which the program has, and that of the filter language.
fn pages(program: &Path, folder: &Path) -> Result<(), String> {
    let seconds = seconds();
    let mut command = Command::new(program);
    command.arg("manual").arg(folder);
    process::check(command.env(DATE, seconds.to_string()))?;
    let source = ringtap_testkit::repository().join("docs/reference/filter-language.md");
    let text = fs::read_to_string(&source).map_err(at(&source))?;
    let date = ringtap_manual::date(seconds);
    let source = format!("ringtap {RINGTAP}");
    let title = ringtap_manual::Title {
        section: "7",
        date: &date,
        source: &source,
    };
    let about = "the language of ringtap's filters";
    let others = [
        "ringtap(1)",
        "ringtap-filter(1)",
        "ringtap-dump(1)",
        "pcap-filter(7)",
        "tcpdump(8)",
    ];
    let page = ringtap_manual::from_markdown("ringtap-filter", about, &text, &others, &title);
    write(&folder.join("ringtap-filter.7"), page.as_bytes(), 0o644)
}

/// Returns the time of the sources: that of the environment, else that of the last commit, else 2026-01-01.
pub(super) fn seconds() -> u64 {
    let given = std::env::var(DATE).ok().and_then(|text| text.parse().ok());
    given.or_else(committed).unwrap_or(1_767_225_600)
}

fn committed() -> Option<u64> {
    let mut git = Command::new("git");
    git.arg("-C").arg(ringtap_testkit::repository());
    let output = git.args(["log", "-1", "--format=%ct"]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

impl Layout {
    /// Installs manual pages, compressed in the same way each time.
    pub(super) fn manual(&self, program: &Path) -> Result<(), String> {
        let folder = process::folder()?;
        pages(program, folder.path())?;
        for (path, _) in process::below(folder.path(), &[])? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let section = name.rsplit('.').next().unwrap_or("1");
            let text = fs::read(&path).map_err(at(folder.path()))?;
            let place = self.place(format!("share/man/man{section}/{name}.gz"));
            write(&place, &gzip(&text)?, 0o644)?;
        }
        Ok(())
    }

    /// Installs completion for the shells.
    pub(super) fn completion(&self, program: &Path) -> Result<(), String> {
        for (shell, place) in SHELLS {
            let mut command = Command::new(program);
            // The program is found by its name where it is used.
            let output = command
                .env("RINGTAP_COMPLETE", shell)
                .output()
                .map_err(at(program))?;
            if !output.status.success() {
                return Err(format!("{}: no completion for {shell}", program.display()));
            }
            // Debian's packages have a folder of their own.
            let place = match self.prefix.to_str() {
                Some("/usr") => place.to_owned(),
                _ => place.replace("vendor-completions", "site-functions"),
            };
            write(&self.place(place), &output.stdout, 0o644)?;
        }
        Ok(())
    }
}

/// Compresses without name and time.
pub(super) fn gzip(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut gzip = Command::new("gzip");
    gzip.arg("-9n").stdin(Stdio::piped()).stdout(Stdio::piped());
    let explain = |error: std::io::Error| format!("gzip: {error}");
    let mut child = gzip.spawn().map_err(explain)?;
    let mut input = child.stdin.take().ok_or("gzip: no input")?;
    let text = text.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&text));
    let output = child.wait_with_output().map_err(explain)?;
    let written = writer.join().map_err(|_| "gzip: interrupted")?;
    written.map_err(explain)?;
    let packed = output.status.success().then_some(output.stdout);
    packed.ok_or_else(|| "gzip failed".to_owned())
}
