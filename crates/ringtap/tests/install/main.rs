//! Manual pages, completion in shells, configuration files, services, Wireshark: all that makes ringtap a tool like others.
#![forbid(unsafe_code)]

mod coming_from;
mod completion;
mod configuration;
mod extcap;
mod manual;
mod services;

use std::process::ExitCode;
use std::time::Duration;

use ringtap_testkit::{Need, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let mandoc = [Need::Tool("mandoc")];
    let shell = |name| [Need::Tool("tmux"), Need::Tool(name), Need::Interfaces];
    suite(vec![
        test("manual_pages_pass_mandoc_lint", &mandoc, manual::lint),
        test(
            "manual_pages_have_every_option_and_section",
            &mandoc,
            manual::complete,
        ),
        test(
            "manual_pages_have_the_date_of_their_source",
            &[],
            manual::date,
        ),
        test("bash_completes", &shell("bash"), completion::bash),
        test("zsh_completes", &shell("zsh"), completion::zsh),
        test("fish_completes", &shell("fish"), completion::fish),
        test(
            "scripts_are_printed_for_known_shells",
            &[],
            completion::scripts,
        ),
        test(
            "configuration_errors_are_all_reported",
            &[],
            configuration::errors,
        ),
        test("a_configuration_is_used", &[], configuration::used),
        test(
            "lines_for_users_of_other_programs_run",
            &[Need::Interfaces],
            coming_from::lines,
        ),
        test(
            "services_are_hardened",
            &[Need::Tool("systemd-analyze")],
            services::hardened,
        ),
        test(
            "installed_configurations_are_valid",
            &[],
            services::configured,
        ),
        test(
            "wireshark_gets_its_answers",
            &[Need::Interfaces],
            extcap::answers,
        ),
        test(
            "tshark_captures_on_ringtap",
            &[Need::Root, Need::Tool("tshark")],
            extcap::tshark,
        ),
    ])
}
