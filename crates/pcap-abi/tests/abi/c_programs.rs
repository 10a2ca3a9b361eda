//! Runs each program of `tests/c` on both libraries: directly, under Valgrind and with
//! AddressSanitizer. All six runs must print the same, but for the differences in `versions`, and
//! report no error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringtap_testkit::netns::{Namespace, Veth};
use ringtap_testkit::{Need, Test, test};

use crate::library::{self, Library, crate_folder, difference, run, text_of};
use crate::versions;

/// Each program's first lines describe it.
const PROGRAMS: [&str; 12] = [
    "breakloop",
    "cancel",
    "compile",
    "devices",
    "dump",
    "live",
    "loops",
    "names",
    "offline",
    "seek",
    "states",
    "threads",
];

/// Programs for functions that Debian's library does not have; their output is in a file of the
/// same name, `.expected`.
const OWN_PROGRAMS: [&str; 2] = ["blocks", "ext"];

/// AddressSanitizer reports the stack unwinding of a cancelled thread as an error, with Debian's
/// library too.
const NOT_SANITIZED: [&str; 1] = ["cancel"];

const NEEDS: [Need; 5] = [
    Need::Root,
    Need::LibpcapDev,
    Need::Tool("cc"),
    Need::Tool("ip"),
    Need::Tool("valgrind"),
];

/// The devices on which `readiness` captures.
const DEVICES: [&str; 6] = [
    "veth0",
    "any",
    "tcx:veth0",
    "tcx:any",
    "xdp:veth0",
    "xsk:veth0",
];

/// The needs of taps.
const TAP_NEEDS: [Need; 5] = [
    Need::Root,
    Need::LibpcapDev,
    Need::Tool("cc"),
    Need::Tool("ip"),
    Need::Kernel(6, 6),
];

/// Exit status of a program whose needs are not met.
const GAVE_UP: i32 = 3;

/// The way in which a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Valgrind,
    AddressSanitizer,
}

pub(crate) fn tests() -> Vec<Test> {
    let one = |name: &'static str| test(format!("c::{name}"), &NEEDS, move || compare(name));
    let own = |name: &'static str| test(format!("c::{name}"), &NEEDS, move || as_expected(name));
    let shared = PROGRAMS.into_iter().map(one);
    let mut all: Vec<Test> = shared.chain(OWN_PROGRAMS.into_iter().map(own)).collect();
    for device in DEVICES {
        let name = format!("c::readiness_of_{}", device.replace(':', "_"));
        all.push(test(name, &TAP_NEEDS, move || {
            is_ready_when_it_says_so(device)
        }));
    }
    all.push(test("c::loops_on_taps", &TAP_NEEDS, loops_on_taps));
    all.push(test("c::blocks_on_taps", &TAP_NEEDS, blocks_on_taps));
    all.push(test("c::example_of_the_page", &NEEDS, example_of_the_page));
    let strace: Vec<Need> = NEEDS.into_iter().chain([Need::Tool("strace")]).collect();
    all.push(test("c::calls_of_a_burst", &strace, calls_of_a_burst));
    all
}

/// Runs the program `readiness` on Debian's library, then on ours with every engine: all packets
/// arrive, and no read hangs.
fn is_ready_when_it_says_so(device: &'static str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let run_on = |library: Library, device: &str| {
        let program = compiled("readiness", folder.path(), false);
        let namespace = with_a_wire();
        let mut command = namespace.command(&program.to_string_lossy());
        library.choose(&mut command);
        command.args([device, "veth1"]);
        // That hook takes one program.
        command.args(device.starts_with("xdp:").then_some("alone"));
        text_of(&mut command)
    };
    if device.starts_with("xsk:") {
        // This engine takes packets away from the host, which a device's name cannot request.
        let seen = run_on(Library::Ringtap, device);
        return match seen
            .lines()
            .find(|line| !line.ends_with(": activation failed"))
        {
            Some(line) => Err(line.to_owned()),
            None => Ok(()),
        };
    }
    let all = ": all packets, in order, and silence";
    let mut libraries = vec![Library::Ringtap];
    // Debian's library has only one engine.
    libraries.extend((!device.contains(':')).then_some(Library::Debian));
    for library in libraries {
        let seen = run_on(library, device);
        if seen.lines().count() < 30 {
            return Err(format!("{library:?}: too few lines:\n{seen}"));
        }
        for line in seen.lines().filter(|line| !line.ends_with(all)) {
            // Debian's library never delivers a block that is not full.
            let waits =
                library == Library::Debian && line.ends_with(", timeout 0: packets are missing");
            if !waits {
                return Err(format!("{library:?}, {device}: {line}"));
            }
        }
    }
    Ok(())
}

/// Checks that 200 packets that wait in the ring are read by a few system calls, with any timeout.
fn calls_of_a_burst() -> Result<(), String> {
    /// The most polls and reads, including those of the start.
    const MOST: u64 = 40;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = compiled("burst", folder.path(), false);
    for timeout in ["0", "100"] {
        let counts = folder.path().join("counts");
        let namespace = with_a_wire();
        let mut command = namespace.command("strace");
        command.args(["-f", "-c", "-o"]).arg(&counts).arg(&program);
        Library::Ringtap.choose(&mut command);
        let seen = text_of(command.args(["veth0", "veth1", timeout]));
        if seen != "200 packets\n" {
            return Err(format!("timeout {timeout}: {seen}"));
        }
        let table = std::fs::read_to_string(&counts).map_err(|error| error.to_string())?;
        let calls = table.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_one = |name: &&str| ["poll", "ppoll", "epoll_wait", "read"].contains(name);
            words.last().filter(|name| is_one(name))?;
            words.get(3)?.parse::<u64>().ok()
        });
        let calls: u64 = calls.sum();
        if calls == 0 || calls > MOST {
            return Err(format!(
                "timeout {timeout}: {calls} polls and reads\n{table}"
            ));
        }
    }
    Ok(())
}

/// Runs the program `loops` on engines whose descriptor combines several: its output does not
/// depend on the engine.
fn loops_on_taps() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [expected, tcx, xdp] = [
        (Library::Debian, "veth0"),
        (Library::Ringtap, "tcx:veth0"),
        (Library::Ringtap, "xdp:veth0"),
    ]
    .map(|(library, device)| {
        let program = compiled("loops", folder.path(), false);
        let namespace = with_a_wire();
        let mut command = namespace.command(&program.to_string_lossy());
        library.choose(&mut command);
        text_of(command.args([device, "veth1"]))
    });
    let differences = [difference(&expected, &tcx), difference(&expected, &xdp)];
    match differences.into_iter().flatten().next() {
        Some(difference) => Err(difference),
        None => Ok(()),
    }
}

/// Runs the program `blocks` on the taps: its output has their names, and is the same otherwise.
fn blocks_on_taps() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = compiled("blocks", folder.path(), false);
    let expected = expected_of("blocks")?;
    for engine in ["tcx", "xdp"] {
        let namespace = with_a_wire();
        let mut command = namespace.command(&program.to_string_lossy());
        Library::Ringtap.choose(&mut command);
        command.current_dir(folder.path());
        let seen = text_of(command.args([&format!("{engine}:veth0"), "veth1"]));
        let expected = expected.replace("engine: packet", &format!("engine: {engine}"));
        if let Some(difference) = difference(&expected, &seen) {
            return Err(format!("{engine}: {difference}"));
        }
    }
    Ok(())
}

/// The example of docs/reference/libpcap.md compiles, and counts the packets of a file.
fn example_of_the_page() -> Result<(), String> {
    let page = crate_folder().join("../../docs/reference/libpcap.md");
    let page = std::fs::read_to_string(page).map_err(|error| error.to_string())?;
    let code = page.split("```c\n").nth(1).ok_or("no example in C")?;
    let code = code.split("```").next().unwrap_or_default();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = folder.path().join("count.c");
    std::fs::write(&source, code).map_err(|error| error.to_string())?;
    let program = folder.path().join("count");
    text_of(&mut compiler(&source, &program, true));
    // The program beside it writes a file of 300 packets.
    let blocks = compiled("blocks", folder.path(), false);
    let namespace = with_a_wire();
    let mut command = namespace.command(&blocks.to_string_lossy());
    Library::Ringtap.choose(&mut command);
    text_of(command.args(["veth0", "veth1"]).current_dir(folder.path()));
    let mut command = Command::new(&program);
    Library::Ringtap.choose(&mut command);
    let seen = text_of(command.arg("frames.pcap").current_dir(folder.path()));
    match seen == "300 packets, 36000 bytes\n" {
        true => Ok(()),
        false => Err(seen),
    }
}

fn expected_of(name: &str) -> Result<String, String> {
    let path = crate_folder().join(format!("tests/c/{name}.expected"));
    let expected = std::fs::read_to_string(&path);
    expected.map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a program in every way on the tested library.
fn as_expected(name: &'static str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let expected = expected_of(name)?;
    for way in [Way::Plain, Way::Valgrind, Way::AddressSanitizer] {
        let seen = observe(name, folder.path(), way, Library::Ringtap)?;
        if let Some(difference) = difference(&expected, &seen) {
            return Err(format!(
                "{name}, {way:?}: what is expected stands first:\n{difference}"
            ));
        }
    }
    Ok(())
}

fn compare(name: &'static str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let debians = observe(name, folder.path(), Way::Plain, Library::Debian)?;
    if debians.is_empty() {
        return Err(format!("{name} prints nothing"));
    }
    let ours = versions::expected(name, &debians)?;
    let ways = [Way::Plain, Way::Valgrind, Way::AddressSanitizer];
    for (way, library) in ways
        .into_iter()
        .flat_map(|way| Library::BOTH.map(|l| (way, l)))
    {
        let skipped = way == Way::AddressSanitizer && NOT_SANITIZED.contains(&name);
        // The checkers' results for Debian's library do not depend on our build.
        let known = library == Library::Debian && (way == Way::Plain || library::is_other());
        if skipped || known {
            continue;
        }
        let seen = observe(name, folder.path(), way, library)?;
        let expected = match library {
            Library::Debian => &debians,
            Library::Ringtap => &ours,
        };
        if let Some(difference) = difference(expected, &seen) {
            return Err(format!("{name}, {way:?}, {library:?}:\n{difference}"));
        }
    }
    Ok(())
}

/// Runs a program in a namespace with a veth pair and returns its output.
fn observe(name: &str, folder: &Path, way: Way, library: Library) -> Result<String, String> {
    let program = compiled(name, folder, way == Way::AddressSanitizer);
    let namespace = with_a_wire();
    let mut command = match way {
        Way::Valgrind => {
            let mut command = namespace.command("valgrind");
            command.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
            let suppressions = crate_folder().join("tests/c/valgrind.supp");
            command
                .arg("--errors-for-leak-kinds=definite")
                .arg(format!("--suppressions={}", suppressions.display()))
                .arg(program);
            command
        }
        Way::Plain | Way::AddressSanitizer => namespace.command(&program.to_string_lossy()),
    };
    library.choose(&mut command);
    let here = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    let output = run(command.args(["veth0", "veth1"]).current_dir(here.path()));
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || (way == Way::Valgrind && !errors.is_empty()) {
        let reason = match output.status.code() {
            Some(GAVE_UP) => "gave up",
            _ => "failed",
        };
        return Err(format!(
            "{name}, {way:?}, {library:?}: {reason}: {}\n{errors}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn compiled(name: &str, folder: &Path, sanitized: bool) -> PathBuf {
    let program = folder.join(if sanitized {
        format!("{name}-asan")
    } else {
        name.to_owned()
    });
    if program.exists() {
        return program;
    }
    let source = crate_folder().join("tests/c").join(format!("{name}.c"));
    let mut compiler = compiler(&source, &program, OWN_PROGRAMS.contains(&name));
    if sanitized {
        compiler.args(["-fsanitize=address", "-fno-omit-frame-pointer"]);
    }
    text_of(&mut compiler);
    program
}

/// Returns the command that compiles a program; `is_own` for one with functions of ringtap.
fn compiler(source: &Path, program: &Path, is_own: bool) -> Command {
    let mut compiler = Command::new("cc");
    compiler.args([
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-deprecated-declarations",
    ]);
    compiler.args(["-O1", "-g", "-pthread"]);
    compiler.arg("-I").arg(crate_folder().join("include"));
    compiler.arg(source).arg("-o").arg(program);
    if is_own {
        compiler.arg("-L").arg(library::folder());
    }
    compiler.arg("-lpcap");
    compiler
}

/// Returns a namespace with a veth pair, `veth0` and `veth1`, on which no other packets are sent.
pub(crate) fn with_a_wire() -> Namespace {
    let namespace = Namespace::new();
    let mut netlink = namespace.netlink();
    let veth = Veth::new("veth0", "veth1");
    netlink.create_veth(&veth).expect("a veth pair can be made");
    for end in ["veth0", "veth1"] {
        netlink.set_up(end, true).expect("an end can be set up");
    }
    for end in ["veth0", "veth1"] {
        let up = netlink.wait_until_up(end, Duration::from_secs(10));
        assert!(up.expect("the end exists"), "{end} got no carrier");
    }
    namespace
}
