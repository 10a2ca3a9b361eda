//! AArch64 on another machine: programs that are cross-compiled in a root of Debian's packages, and the tests
//! that need no kernel, run by QEMU's emulation of one process.
//!
//! The root has a compiler of its own, since a toolchain's library for the other processor comes from the
//! same place as its compiler. Its packages are extracted, and none of their scripts runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ringtap_testkit::need::find_tool;

use super::fetch;
use super::outcome::{self, ProgramOutcome};
use super::suites::{self, Built, Suite};
use crate::process::{self, at};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Runs a program for AArch64 (Debian: qemu-user-static).
pub(crate) const EMULATOR: &str = "qemu-aarch64-static";
/// The suite whose compiler is new enough.
pub(super) const SUITE: &str = "sid";
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
/// A compiler for both processors, and what a shell needs.
const PACKAGES: [&str; 11] = [
    "base-files",
    "dash",
    "coreutils",
    "rustc",
    "cargo",
    "libstd-rust-dev:arm64",
    "gcc",
    "libc6-dev",
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "binutils",
];
/// The crates whose tests need no kernel.
const CRATES: [&str; 9] = [
    "agreement",
    "craft",
    "filter",
    "flow",
    "jit",
    "packet",
    "print",
    "record",
    "savefile",
];
/// Where the cross compiler's packages have the C library.
const LIBRARIES: &str = "usr/aarch64-linux-gnu";
/// The time limit of one program.
const LIMIT: Duration = Duration::from_secs(1800);
/// How much slower than a processor its emulation is.
const SLOWNESS: &str = "10";

/// Builds the tests that need no kernel, and runs them. `see` is called with the results so far, after
/// each program.
///
/// # Errors
/// A sentence on what is missing or does not build.
pub(crate) fn run(
    cache: &Path,
    results: &Path,
    mut see: impl FnMut(&[ProgramOutcome]) -> Result<(), String>,
) -> Result<Vec<ProgramOutcome>, String> {
    let mut needed = [EMULATOR, "unshare", "apt-get", "dpkg-deb"].into_iter();
    if let Some(program) = needed.find(|program| find_tool(program).is_none()) {
        return Err(format!("needs {program} (Debian: qemu-user-static)"));
    }
    let root = compiler(cache)?;
    let format = "--message-format=json-render-diagnostics";
    let mut arguments = ["test", "--no-run", format].map(str::to_owned).to_vec();
    for name in CRATES {
        arguments.extend(["-p".to_owned(), format!("ringtap-{name}")]);
    }
    let messages = build(&root, &arguments)?;
    let mut programs: Vec<Program> = messages.lines().filter_map(program_in).collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    fs::create_dir_all(results).map_err(at(results))?;
    let mut outcomes = Vec::new();
    for program in programs {
        outcomes.push(run_one(&program, &root.join(LIBRARIES), results)?);
        see(&outcomes)?;
    }
    Ok(outcomes)
}

/// Builds the suites for a machine with this processor.
///
/// # Errors
/// A sentence on what is missing or does not build.
pub(crate) fn suites(cache: &Path, wanted: &[&'static Suite]) -> Built {
    let messages = build(&compiler(cache)?, &suites::arguments(wanted))?;
    suites::programs(wanted, &messages)
}

/// Returns the root with the compiler.
fn compiler(cache: &Path) -> Result<PathBuf, String> {
    fetch::root(&cache.join("cross"), SUITE, &ARCHITECTURES, &PACKAGES)
}

/// A program of tests.
struct Program {
    /// The crate and the target, such as `jit, native`.
    name: String,
    /// The crate's folder.
    folder: PathBuf,
    path: PathBuf,
}

/// Runs cargo inside the root, where the repository and its crates are seen at their places, and returns its
/// messages.
fn build(root: &Path, arguments: &[String]) -> Result<String, String> {
    let repository = ringtap_testkit::repository();
    let mut fetching = process::cargo(&repository);
    process::check(fetching.args(["fetch", "--quiet", "--target", TARGET]))?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let (inside, registry) = (Path::new("/root/.cargo"), home.join("registry"));
    let mounts = [
        (repository.clone(), repository.clone()),
        (registry, inside.join("registry")),
        ("/dev".into(), "/dev".into()),
        ("/proc".into(), "/proc".into()),
    ];
    let mut script = String::from("set -e\n");
    for (from, to) in mounts {
        let to = format!("{}{}", root.display(), to.display());
        let from = from.display();
        script += &format!("mkdir -p '{to}' && mount --rbind '{from}' '{to}'\n");
    }
    script.push_str(&format!(
        "exec chroot '{}' sh -c 'cd \"$0\" && exec cargo \"$@\"' '{}' \"$@\"",
        root.display(),
        repository.display()
    ));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]);
    command.args(arguments);
    command.args(["--offline", "--target", TARGET]);
    let linker = "aarch64-linux-gnu-gcc";
    command
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .env("CARGO_TARGET_DIR", repository.join("target/cross"))
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", linker)
        // Installing gcc would have made the link `cc`.
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", "gcc")
        .env("HOST_CC", "gcc")
        .env("CC_aarch64_unknown_linux_gnu", linker);
    // As little to write as the caller asks for.
    if let Some(debug) = std::env::var_os("CARGO_PROFILE_DEV_DEBUG") {
        command.env("CARGO_PROFILE_DEV_DEBUG", debug);
    }
    suites::messages(command.stdin(Stdio::null()), "unshare")
}

/// The program of tests that a message of cargo's is about, also one of a library's own tests.
fn program_in(line: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?;
    let of = folder.file_name()?.to_string_lossy();
    let kind = message["target"]["kind"][0].as_str()?;
    let name = match kind {
        "test" => message["target"]["name"].as_str()?,
        _ => "unit tests",
    };
    Some(Program {
        name: format!("{of}, {name}"),
        folder: folder.to_owned(),
        path: message["executable"].as_str()?.into(),
    })
}

fn run_one(program: &Program, libraries: &Path, results: &Path) -> Result<ProgramOutcome, String> {
    let log = results.join(format!("{}.log", program.name.replace(", ", ".")));
    let file = fs::File::create(&log).map_err(at(&log))?;
    let mut emulator = Command::new(EMULATOR);
    emulator
        .arg("-L")
        .arg(libraries)
        .arg(&program.path)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("RINGTAP_TEST_SLOWNESS", SLOWNESS)
        .current_dir(&program.folder);
    let mut limited = process::limited(LIMIT, &emulator);
    limited.stdout(file.try_clone().map_err(at(&log))?);
    let status = limited.stderr(file).status();
    let ended = process::judge(&limited, status);
    let text = String::from_utf8_lossy(&fs::read(&log).map_err(at(&log))?).into_owned();
    Ok(outcome::of_program(&program.name, &text, ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_tests_are_programs_as_well() {
        let line = |kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/jit/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"native"}},"profile":{{"test":true}},
                "executable":"/r/target/x"}}"#
            )
        };
        let name = |kind: &str| program_in(&line(kind)).map(|program| program.name);
        assert_eq!(name("test").as_deref(), Some("jit, native"));
        assert_eq!(name("lib").as_deref(), Some("jit, unit tests"));
        assert_eq!(
            program_in(r#"{"reason":"build-finished"}"#).map(|_| ()),
            None
        );
    }
}
