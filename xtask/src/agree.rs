//! The agreement of all engines with libpcap, as the tests of `crates/agreement` establish it.

use std::process::ExitCode;

use crate::process;

/// Runs them with their output; in full, or as the test command does.
pub(crate) fn run(full: bool) -> ExitCode {
    let repository = ringtap_testkit::repository();
    let mut command = process::cargo(&repository);
    command.args(["test", "--package", "ringtap-agreement"]);
    command.args(["--test", "agreement"]);
    if full {
        command.env("RINGTAP_AGREEMENT", "full");
        // Native code for every expression takes an hour of a slow processor, which is no hang.
        command.env("RINGTAP_TEST_SLOWNESS", "20");
    }
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
