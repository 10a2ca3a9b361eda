//! Tests that the tables of options in `docs/reference/` match the commands.

use clap::CommandFactory as _;
use ringtap_testkit::pages::check_options;

use super::Cli;

/// Every command has a page with the command's options. `ringtap-bench` compares its own.
#[test]
fn pages_have_the_options_of_the_commands() {
    let mut cli = Cli::command();
    cli.build();
    for command in cli
        .get_subcommands()
        .filter(|command| !["help", "bench"].contains(&command.get_name()))
    {
        check_options(command).unwrap_or_else(|reason| panic!("{reason}"));
    }
}
