//! The program that Wireshark runs, where it does more than `ringtap dump`: capture on other machines over ssh, and the toolbar.
#![forbid(unsafe_code)]

mod hostile;
mod server;
mod session;
mod ssh;
mod toolbar;

use std::process::ExitCode;
use std::time::Duration;

use ringtap_testkit::{Need, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let server = [Need::Root, Need::Tool("ssh"), Need::Tool("sshd")];
    let with = |tool| [server[0], server[1], server[2], Need::Tool(tool)];
    suite(vec![
        test("the_ssh_session_is_found", &[], session::found),
        test("a_connection_over_ssh_is_left_out", &server, ssh::packets),
        test("tshark_captures_over_ssh", &with("tshark"), ssh::tshark),
        test("ringtap_runs_with_sudo", &with("sudo"), ssh::sudo),
        test("ringtap_is_copied_if_allowed", &server, ssh::ringtap_copied),
        test(
            "a_lost_connection_leaves_nothing_behind",
            &server,
            ssh::killed,
        ),
        test("a_closed_pipe_ends_both_sides", &server, ssh::closed),
        test("errors_are_one_line", &server, ssh::errors),
        test(
            "the_toolbar_is_listed",
            &[Need::Interfaces],
            toolbar::listed,
        ),
        test(
            "the_toolbar_has_the_counters",
            &[Need::Root],
            toolbar::counters,
        ),
        test(
            "nobody_has_to_read_the_toolbar",
            &[Need::Root],
            toolbar::unread,
        ),
        test(
            "the_toolbar_has_the_counters_of_another_machine",
            &server,
            toolbar::remote,
        ),
        test("hostile_words_are_not_run", &server, hostile::words),
    ])
}
