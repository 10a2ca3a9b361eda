//! Tests the functions beyond libpcap's: `tests/c/extensions.c`, linked with the library, on two
//! engines.

use std::process::Command;

use ringtap_testkit::{Need, Test, test};

use crate::c_programs::with_a_wire;
use crate::library::{Library, crate_folder, difference, folder, run, text_of};

const NEEDS: [Need; 4] = [
    Need::Root,
    Need::Tool("cc"),
    Need::Tool("ip"),
    Need::Kernel(6, 6),
];

/// The program's output, except for the engine's name and for values that only a tap can change
/// while it runs.
const EXPECTED: &str = "\
no such engine: -1
engine: 0
activate: 0 \nit is ENGINE, too late: -4
descriptor 1
compile 0
filter 0
buffer CHANGED
min to copy CHANGED
user buffer 0, -1
queued 50 of 51, all room used 1
mode 7: -1
statistics: 0
sent all 1
counted 50 packets, 3000 bytes
packets: 0
no file yet: -1
live dump: 0
a second: -1
sent all 1
ended: 1
in the file: 20
stats: 0
received 50, sent 100, ring 0
extended: size 1, received 50, sent 100
sent all 1
one of five: 10
hook 0: 0
hook 1: 0
hook 2: 0
hook 3: 0
hook 4: -1
create: 0
parse: 0
rpcap://10.0.0.1:2002/eth0: type 4, host 10.0.0.1, port 2002, name eth0
devices: 0
  rpcap://veth1
  rpcap://veth0
  rpcap://any
  rpcap://lo
remote: 1
after the timeout: 0
activate: 0
without: 0
sent all 1
received 0
another: 0
sent all 1
received 50
activate: 0
with rights: 0
without: REFUSED
sent all 1
received KEPT
another: REFUSED
sent all 1
received 50
";

/// Its next output, for the engine whose filter belongs to a socket and that needs few privileges.
const LOCKED: &str = "\
lock: 0
statistics: -1
sent all 1
received 50
statistics: 0
lock: 0
packets: -1
still counts: 2
few rights: 0
filter: 0
statistics: 0
sent all 1
counted 50 packets, 3000 bytes
";

/// Its last output.
const DELETED: &str = "\
statistics: 0
deleted: 0
-1: The interface disappeared
";

pub(crate) fn tests() -> Vec<Test> {
    ["packet", "tcx"]
        .into_iter()
        .map(|engine| {
            let name = format!("extensions::{engine}");
            test(name, &NEEDS, move || on(engine))
        })
        .collect()
}

fn on(engine: &'static str) -> Result<(), String> {
    let here = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = here.path().join("extensions");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-I"])
        .arg(crate_folder().join("include"))
        .arg(crate_folder().join("tests/c/extensions.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(folder())
        .arg("-lpcap");
    text_of(&mut compiler);
    let namespace = with_a_wire();
    let mut command = namespace.command(&program.to_string_lossy());
    Library::Ringtap.choose(&mut command);
    let output = run(command.args(["veth0", engine]).current_dir(here.path()));
    let is_packet = engine == "packet";
    let changed = if is_packet { "-1" } else { "0" };
    // Only the kernel has the packets that its filter rejects: if it cannot take another filter,
    // the former one stays.
    let (refused, kept) = if is_packet { ("0", "0") } else { ("-1", "50") };
    let locked = if is_packet { LOCKED } else { "" };
    let expected = [EXPECTED, locked, DELETED]
        .concat()
        .replace("ENGINE", engine)
        .replace("CHANGED", changed)
        .replace("REFUSED", refused)
        .replace("KEPT", kept);
    let seen = String::from_utf8_lossy(&output.stdout);
    match difference(&expected, &seen) {
        None if output.status.success() => Ok(()),
        None => Err(output.status.to_string()),
        Some(difference) => Err(format!(
            "first what was expected, then:\n{difference}\n{seen}"
        )),
    }
}
