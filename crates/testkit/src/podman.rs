//! Containers of podman with the host's programs, of a folder or of an image that has no programs itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The options with which podman works on machines with both hierarchies of control groups, too.
const WORKS_ANYWHERE: [&str; 5] = [
    "--log-level=error",
    "--runtime",
    "runc",
    "--cgroup-manager",
    "cgroupfs",
];
/// The options of a container without a network, with a user's usual limits.
const RUN: [&str; 8] = [
    "--network",
    "none",
    "--ulimit",
    "nofile=1024:1024",
    "--ulimit",
    "nproc=4096:4096",
    "-v",
    "/usr:/usr:ro",
];

/// The variable with the file that [`make_storage`] returns.
pub const STORAGE: &str = "CONTAINERS_STORAGE_CONF";

/// Completes a command that begins with podman's name, runs it, and returns its output.
///
/// # Panics
/// It fails.
pub fn podman(command: &mut Command, arguments: &[&str]) -> String {
    let output = command.args(WORKS_ANYWHERE).args(arguments).output();
    let output = output.expect("podman runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Starts a container that sleeps and goes with its process. Returns its id. `options` are for `podman run`.
///
/// # Panics
/// It does not start.
pub fn start(command: &mut Command, name: &str, files: &Path, options: &[&str]) -> String {
    let files = files.to_string_lossy();
    run(command, name, options, &["--rootfs", &files])
}

/// Starts the same of an image.
///
/// # Panics
/// It does not start.
pub fn start_image(command: &mut Command, name: &str, image: &str, options: &[&str]) -> String {
    run(command, name, options, &[image])
}

fn run(command: &mut Command, name: &str, options: &[&str], of: &[&str]) -> String {
    let begin = ["run", "-d", "--rm", "--name", name];
    let end = ["/usr/bin/sleep", "600"];
    podman(command, &[&begin[..], options, &RUN, of, &end].concat())
}

/// Makes an image of the files of a container ([`make_files`]). `folder` is for its archive.
///
/// # Panics
/// It cannot be made.
pub fn make_image(command: &mut Command, name: &str, files: &Path, folder: &Path) {
    let archive = folder.join("image.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&archive).arg("-C").arg(files);
    let output = tar.arg(".").output();
    let output = output.expect("tar runs");
    assert!(output.status.success(), "{output:?}");
    podman(command, &["import", &archive.to_string_lossy(), name]);
}

/// Makes a folder for podman's storage, which works on every file system. Commands of podman, and programs that ask it,
/// find it by the environment ([`STORAGE`]).
///
/// # Panics
/// It cannot be made.
#[must_use]
pub fn make_storage(folder: &Path) -> PathBuf {
    let place = |name: &str| folder.join(name).display().to_string();
    let (storage, run) = (place("storage"), place("storage-run"));
    let text =
        format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{storage}\"\nrunroot = \"{run}\"\n");
    let file = folder.join("storage.conf");
    fs::write(&file, text).expect("a file");
    file
}

/// Makes the files of a container in an empty folder.
///
/// # Panics
/// They cannot be made.
pub fn make_files(folder: &Path) {
    for name in ["dev", "etc", "proc", "run", "sys", "tmp", "usr"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), folder.join(name)).expect("a link");
    }
}
