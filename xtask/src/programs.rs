//! `cargo xtask programs`: programs that use libpcap through other languages, compiled against an
//! installed ringtap and run on its library and on Debian's, with the same result.
//!
//! This part of the comparison needs compilers and packages from other registries, so it is not part of
//! `cargo xtask test`. The tests of `crates/pcap-abi` compare the programs that Debian ships.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use ringtap_testkit::Need;
use ringtap_testkit::corpus;
use ringtap_testkit::need::find_tool;
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Traffic};

use crate::install;
use crate::process::{self, at};

const LIMIT: Duration = Duration::from_secs(60);
/// HTTP over IPv4, 33 packets.
const FILE: &str = "ndpi/http_auth.pcap";
/// Needed of the machine by all of them.
const NEEDS: [Need; 3] = [Need::Root, Need::Corpus, Need::Tool("tcpreplay")];

/// A program: its name, what builds it needs, how its command line comes about.
type Guest = (
    &'static str,
    &'static str,
    fn(&Place) -> Result<Command, String>,
);

const GUESTS: [Guest; 5] = [
    ("C, by pcap-config", "cc", c),
    ("Rust, crate pcap", "cargo", rust),
    ("Go, gopacket/pcap", "go", go),
    ("Python, pypcap", "python3", |place| {
        python(place, "pypcap", "pypcap.py")
    }),
    ("Python, pcapy-ng", "python3", |place| {
        python(place, "pcapy-ng", "pcapy_ng.py")
    }),
];

/// Where things are built.
struct Place {
    folder: PathBuf,
    /// Where ringtap is installed.
    prefix: PathBuf,
    /// The sources of the programs.
    sources: PathBuf,
}

/// Runs all; the last line is the summary.
pub(crate) fn run() -> ExitCode {
    run_all().unwrap_or_else(|reason| process::exit("programs", Err(reason)))
}

fn run_all() -> Result<ExitCode, String> {
    if let Some(reason) = NEEDS.iter().find_map(Need::unmet) {
        return Err(reason);
    }
    let folder = process::folder()?;
    let place = Place {
        folder: folder.path().to_path_buf(),
        prefix: folder.path().join("prefix"),
        sources: ringtap_testkit::repository().join("crates/pcap-abi/tests"),
    };
    install::into(&place.prefix)?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, tool, prepare) in GUESTS {
        if tool_path(tool).is_none() {
            println!("{name}: skipped: needs {tool}");
            skipped += 1;
            continue;
        }
        match prepare(&place).and_then(|command| compare(&place, &command)) {
            Ok(lines) => {
                println!("{name}: the same {lines} lines");
                passed += 1;
            }
            Err(reason) => {
                println!("{name}: {reason}");
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the path of a tool. Go's own installer puts it where search paths may not lead.
fn tool_path(name: &str) -> Option<PathBuf> {
    let own = Path::new("/usr/local/go/bin").join(name);
    find_tool(name).or_else(|| own.is_file().then_some(own))
}

impl Place {
    fn libraries(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// Returns a folder with Debian's library by upstream's name, for which programs ask that were linked
    /// with ringtap's.
    fn debians(&self) -> Result<PathBuf, String> {
        let folder = self.folder.join("debian");
        if !folder.exists() {
            let mut cc = Command::new("cc");
            let asked = cc.arg("-print-file-name=libpcap.so").output();
            let asked = asked.map_err(at(&folder))?.stdout;
            let library = PathBuf::from(String::from_utf8_lossy(&asked).trim());
            std::fs::create_dir(&folder).map_err(at(&folder))?;
            symlink(library, folder.join("libpcap.so.1")).map_err(at(&folder))?;
        }
        Ok(folder)
    }

    /// Returns a command that compiles and links with the installed library.
    fn builder(&self, program: &Path) -> Command {
        let include = format!("-I{}", self.prefix.join("include").display());
        let link = format!("-L{}", self.libraries().display());
        let mut command = Command::new(program);
        command.envs([("CGO_CFLAGS", &include), ("CGO_LDFLAGS", &link)]);
        command.envs([("CFLAGS", &include), ("LDFLAGS", &link)]);
        command.env("LIBPCAP_LIBDIR", self.libraries());
        command.env("LIBPCAP_VER", "1.10.3");
        command.env("CARGO_TARGET_DIR", self.folder.join("rust"));
        command
    }
}

fn tool(name: &str) -> Result<PathBuf, String> {
    tool_path(name).ok_or_else(|| format!("needs {name}"))
}

fn c(place: &Place) -> Result<Command, String> {
    let program = place.folder.join("c");
    let mut command = Command::new("sh");
    let script = "exec cc -w -pthread \"$1\" -o \"$2\" $(\"$3\" --cflags --libs)";
    command.args(["-c", script, "sh"]);
    command.arg(place.sources.join("c/offline.c")).arg(&program);
    command.arg(place.prefix.join("bin/pcap-config"));
    process::check(&mut command)?;
    Ok(Command::new(program))
}

fn rust(place: &Place) -> Result<Command, String> {
    let manifest = place.sources.join("guests/rust/Cargo.toml");
    let mut build = place.builder(&tool("cargo")?);
    build.args(["build", "--quiet", "--locked", "--manifest-path"]);
    process::check(build.arg(manifest))?;
    Ok(Command::new(place.folder.join("rust/debug/guest")))
}

fn go(place: &Place) -> Result<Command, String> {
    let program = place.folder.join("go");
    let mut build = place.builder(&tool("go")?);
    build.current_dir(place.sources.join("guests/go"));
    process::check(build.args(["build", "-o"]).arg(&program).arg("."))?;
    Ok(Command::new(program))
}

/// Compiles a Python package here, because wheels bring their own libpcap.
fn python(place: &Place, package: &str, script: &str) -> Result<Command, String> {
    let environment = place.folder.join("python");
    if !environment.exists() {
        let mut make = Command::new(tool("python3")?);
        process::check(make.args(["-m", "venv"]).arg(&environment))?;
    }
    let mut pip = place.builder(&environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-binary", package]);
    process::check(pip.args(["--no-cache-dir", package]))?;
    let mut command = Command::new(environment.join("bin/python"));
    command.arg(place.sources.join("guests/python").join(script));
    Ok(command)
}

/// Runs on both libraries; how many lines are the same.
fn compare(place: &Place, command: &Command) -> Result<usize, String> {
    let debians = observe(place, command, &place.debians()?)?;
    let ours = observe(place, command, &place.libraries())?;
    if debians.is_empty() {
        return Err("prints nothing".to_owned());
    }
    let differing = debians
        .lines()
        .zip(ours.lines())
        .find(|(their, our)| their != our);
    match differing {
        Some((their, our)) => Err(format!("\n  Debian's: {their}\n  ringtap's: {our}")),
        None if debians == ours => Ok(debians.lines().count()),
        None => Err(format!(
            "{} lines on Debian's, {} on ringtap's",
            debians.lines().count(),
            ours.lines().count()
        )),
    }
}

/// Returns its output, while packets come in on its device repeatedly.
fn observe(place: &Place, command: &Command, library: &Path) -> Result<String, String> {
    let pair = VethPair::new();
    let name = command.get_program().to_string_lossy().into_owned();
    let explain = |error: std::io::Error| format!("{name}: {error}");
    let mut inside = pair.left.namespace.command(&name);
    inside.args(command.get_args()).current_dir(&place.folder);
    inside
        .arg(corpus::folder().unwrap_or_default().join(FILE))
        .arg("veth0");
    inside.env("LD_LIBRARY_PATH", library);
    let traffic = place.folder.join("traffic.pcap");
    let packets = Traffic {
        packets: 200,
        ..Traffic::default()
    };
    packets.write_file(&traffic).map_err(explain)?;
    let mut running = Running::start_piped(&mut inside).map_err(explain)?;
    // A program that reads a file only may have ended by now.
    if running.wait_until_capturing(&pair.left, LIMIT).is_ok() {
        running.wait_until_resting(LIMIT).map_err(explain)?;
        Replay::new(traffic, Rate::Pps(2000)).run(&pair.right);
    }
    let output = running.wait(LIMIT).map_err(explain)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!("{name}: {}: {stderr}", output.status))
    }
}
