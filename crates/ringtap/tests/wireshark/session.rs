//! The option of `ringtap dump` that leaves out the session's connection.

use std::process::{Command, Output};

use super::RINGTAP;

const CONNECTION: &str = "192.0.2.1 50000 192.0.2.2 22";

/// Runs a script that prints a filter's program with `"$0"`, the option, and `"$1"`.
fn run(script: &str, option: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, RINGTAP, option]);
    shell.env("SSH_CONNECTION", CONNECTION);
    shell.output().expect("a shell")
}

/// Prints the program of the filter `tcp`.
const PRINT: &str = "\"$0\" dump -i lo -y EN10MB -d \"$1\" tcp";

pub(crate) fn found() {
    let given = run(PRINT, &format!("--exclude-ssh={CONNECTION}")).stdout;
    let text = String::from_utf8_lossy(&given);
    assert!(text.contains("0xc350"), "{text}");
    // The last command would take the shell's place, and its environment.
    let inherited = format!("env -u SSH_CONNECTION {PRINT}; exit");
    for script in [PRINT, &inherited] {
        assert_eq!(run(script, "--exclude-ssh").stdout, given, "{script}");
    }
    for (script, option, reason) in [
        (PRINT, "--exclude-ssh=", "--exclude-ssh"),
        (PRINT, "--exclude-ssh=tcp 1 2 3", "is not an IP address"),
        (
            "SSH_CONNECTION='UNKNOWN 65535 UNKNOWN 65535' \"$0\" dump -i lo -d \"$1\"",
            "--exclude-ssh",
            "invalid SSH_CONNECTION: \"UNKNOWN\" is not an IP address",
        ),
        (
            "\"$0\" dump -r x \"$1\"",
            "--exclude-ssh",
            "cannot be used with",
        ),
        (
            "\"$0\" dump -r x \"$1\"",
            "--until-eof",
            "cannot be used with",
        ),
    ] {
        let output = run(script, option);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{script}: {said}");
        assert!(said.contains(reason), "{script}: {said}");
    }
}
