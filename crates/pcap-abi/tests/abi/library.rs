//! The two libraries, and commands that use one or the other.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use ringtap_testkit::process::Running;

/// The longest run of a program before it counts as hanging.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The names of the library in programs: upstream's, Debian's, and the linker's.
const NAMES: [&str; 3] = ["libpcap.so.1", "libpcap.so.0.8", "libpcap.so"];

/// The environment variable with the path of a library built with other features, which is then
/// tested.
const OTHER: &str = "RINGTAP_TEST_LIBPCAP";

/// Whether the library that these tests build can generate native code.
pub(crate) const HAS_NATIVE_CODE: bool = cfg!(feature = "jit");

/// The library that a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// The installed library.
    Debian,
    /// The tested library.
    Ringtap,
}

impl Library {
    /// Both libraries, in the order of a comparison.
    pub(crate) const BOTH: [Self; 2] = [Self::Debian, Self::Ringtap];

    /// Makes a command use this library, only by its environment.
    pub(crate) fn choose(self, command: &mut Command) {
        // The variables of the tests for libraries, engines and checkers must not affect programs.
        for (name, _) in std::env::vars_os() {
            let prefixes = ["RINGTAP_", "LD_", "VALGRIND_", "ASAN_", "LSAN_"];
            let text = name.to_string_lossy();
            if prefixes.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        if self == Self::Ringtap {
            command.env("LD_LIBRARY_PATH", folder());
        }
    }
}

/// Returns whether the tested library was not built by these tests.
pub(crate) fn is_other() -> bool {
    std::env::var_os(OTHER).is_some()
}

/// Returns this crate's folder.
pub(crate) fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the path of the tested library.
pub(crate) fn path() -> PathBuf {
    folder().join(NAMES[0])
}

/// Returns a folder with the library under all its names; the first call builds it.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let library = std::env::var_os(OTHER).map_or_else(build, PathBuf::from);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libpcap");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the library");
        for name in NAMES {
            symlink(&library, folder.join(name)).expect("a link to the library");
        }
        folder
    })
}

/// Builds the library: a test cannot depend on a `cdylib`, so cargo does it here.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let target = target.expect("the folder of build results");
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--package", "ringtap-pcap-abi", "--lib"])
        // With the features that these tests were built with.
        .args((!HAS_NATIVE_CODE).then_some("--no-default-features"))
        .arg("--target-dir")
        .arg(target)
        .current_dir(crate_folder())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let library = target.join("debug").join("libpcap.so");
    assert!(library.is_file(), "no {}", library.display());
    library
}

/// Runs a command to its end, or kills it after [`LIMIT`].
pub(crate) fn run(command: &mut Command) -> Output {
    let what = format!("{command:?}");
    let running = Running::start_piped(command).unwrap_or_else(|error| panic!("{what}: {error}"));
    let output = running.wait(LIMIT);
    output.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Runs a command that must succeed and returns its standard output.
pub(crate) fn text_of(command: &mut Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the lines that only one of two texts has, each with its number; `None` if there are
/// none.
pub(crate) fn difference(debian: &str, ringtap: &str) -> Option<String> {
    if debian == ringtap {
        return None;
    }
    let (ours, theirs): (Vec<&str>, Vec<&str>) =
        (ringtap.lines().collect(), debian.lines().collect());
    let mut text = String::new();
    for index in 0..ours.len().max(theirs.len()) {
        let (their, our) = (theirs.get(index), ours.get(index));
        if their != our {
            let number = index + 1;
            let context = index.checked_sub(1).and_then(|before| theirs.get(before));
            text += &format!(
                "line {number}, after {}\n  Debian's: {}\n  ringtap's: {}\n",
                context.unwrap_or(&"the start"),
                their.unwrap_or(&"(ended)"),
                our.unwrap_or(&"(ended)")
            );
        }
        if text.lines().count() > 60 {
            text += "...\n";
            break;
        }
    }
    Some(text)
}
