//! The `ringtap` command line: one module per subcommand, every flag in [`cli`].
#![forbid(unsafe_code)]

mod cli;
mod complete;
mod config;
mod containers;
mod devices;
mod dump;
mod ending;
mod exit;
mod explain_loss;
mod expression;
mod extcap;
mod extract;
mod filter;
mod flow;
mod generate;
mod hint;
mod input;
mod live;
mod look;
mod losses;
mod manual;
mod notice;
mod object;
mod output;
mod over_ip;
mod profile;
mod program;
mod record;
mod rights;
mod send;
mod setup;
mod signals;
mod ssh;
mod stat;
mod tls;
mod toolbar;
mod values;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    if ringtap_sys::privileges::is_set_user_id() {
        // The command line and the environment may come from a stranger who lacks these privileges.
        notice::notice(
            "does not run with the set-user-ID or set-group-ID bit; use sudo, or give it capabilities: \
             setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon+ep",
        );
        return ExitCode::FAILURE;
    }
    notice::open_journal();
    let code = run();
    rights::end();
    code
}

/// Prints help, the version, or a usage error. Returns the exit status.
fn print(error: &clap::Error) -> i32 {
    match error.print().and_then(|()| std::io::stdout().flush()) {
        // The reader has closed the pipe.
        Err(failed) if failed.kind() != std::io::ErrorKind::BrokenPipe && !error.use_stderr() => {
            notice::notice(format_args!("standard output: {failed}"));
            1
        }
        _ => error.exit_code(),
    }
}

/// Explains why a command line is not run, or prints the help that it asks for.
fn refuse(words: &[OsString], refused: &config::Refused) -> ExitCode {
    let (error, has_file) = match refused {
        config::Refused::File(error) => {
            notice::failure(error);
            return ExitCode::from(exit::USAGE);
        }
        config::Refused::Words { error, has_file } => (error, *has_file),
    };
    let words = words.iter().skip(1);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let Some(meant) = hint::instead_of(&words, error.kind()) else {
        let status = print(error);
        if has_file && error.use_stderr() {
            notice::notice("the options of --config are part of the command line");
        }
        std::process::exit(status);
    };
    // If nobody can read it, the exit status remains.
    let _ = error.print();
    notice::notice(format_args!("did you mean: {meant}"));
    std::process::exit(error.exit_code())
}

fn run() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if extcap::is_meant(&words) {
        return extcap::run(&words);
    }
    complete::answer();
    let cli = match config::parse(&words) {
        Ok(cli) => cli,
        Err(refused) => return refuse(&words, &refused),
    };
    if let Err(error) = cli.command.check_netns() {
        notice::failure(error);
        return ExitCode::from(exit::USAGE);
    }
    if let Some(Err(error)) = cli.command.netns().map(cli::NetnsArg::enter) {
        notice::failure(error);
        return ExitCode::FAILURE;
    }
    match cli.command {
        cli::Command::Devices(args) => exit::code(devices::run(&args)),
        cli::Command::Dump(args) => dump::run(*args),
        cli::Command::Stat(args) => stat::run(&args),
        cli::Command::ExplainLoss(args) => explain_loss::run(&args),
        cli::Command::Flow(args) => flow::run(*args),
        cli::Command::Query(_) => program::run(&program::QUERY),
        cli::Command::Top(args) => look::top(*args),
        cli::Command::Web(args) => look::web(*args),
        cli::Command::Record(args) => record::run(&args),
        cli::Command::Extract(args) => extract::run(&args),
        cli::Command::Generate(args) => generate::run(&args),
        cli::Command::Send(args) => send::run(*args),
        cli::Command::Filter(args) => filter::run(&args),
        cli::Command::Profile(args) => profile::run(&args),
        cli::Command::Bench(_) => program::run(&program::BENCH),
        cli::Command::Config(args) => config::run(&args),
        cli::Command::Manual(args) => manual::run(&args),
    }
}
