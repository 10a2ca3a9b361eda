//! `ringtap bench`: options for [`ringtap_bench`], which measures this program.

use std::process::ExitCode;

use ringtap_bench::{Error, Options};

use crate::cli::BenchArgs;
use crate::notice::notice;

/// Runs the subcommand.
pub(crate) fn run(args: &BenchArgs) -> ExitCode {
    let Some(name) = args.name.as_deref().filter(|_| !args.list) else {
        print_names();
        return ExitCode::SUCCESS;
    };
    let ringtap = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => {
            notice(format_args!("this program's path: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let options = Options {
        quick: args.quick,
        case: args.case.clone(),
        out: args.out.clone(),
        ringtap,
        resume: args.resume,
    };
    let done = match name {
        "report" => ringtap_bench::report(&options.out),
        "show" => {
            ringtap_bench::text(&options.out, options.case.as_deref()).map(|text| print!("{text}"))
        }
        "table" => ringtap_bench::markdown(&options.out).map(|text| print!("{text}")),
        _ => ringtap_bench::run(name, &options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ Error::Unknown(_)) => {
            notice(format_args!("{error}; ringtap bench --list names them all"));
            ExitCode::from(2)
        }
        Err(error) => {
            notice(&error);
            ExitCode::FAILURE
        }
    }
}

fn print_names() {
    for (name, purpose) in ringtap_bench::names() {
        println!("{name:<10} {purpose}");
    }
}
