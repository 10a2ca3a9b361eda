//! `ringtap-bench`, which `ringtap bench` runs: measures the `ringtap` installed in the same
//! folder.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ringtap_bench::{Error, Options};

/// Measure ringtap against its peers on this machine, in network namespaces of its own
#[derive(Debug, Parser)]
#[command(
    name = "ringtap-bench",
    version,
    max_term_width = 100,
    override_usage = "ringtap bench [OPTIONS] NAME\n       ringtap bench --list"
)]
struct Arguments {
    /// The experiment, or all; show, report and table show what was measured before
    #[arg(value_name = "NAME", required_unless_present = "list")]
    name: Option<String>,
    /// Less data and fewer rounds: to see that it works, not to compare
    #[arg(long)]
    quick: bool,
    /// The folder for results
    #[arg(long, value_name = "DIR", default_value = "bench-out")]
    out: PathBuf,
    /// Only cases whose title has this text
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// With look: soak ringtap web for so many minutes (an hour shows whether memory is flat); with record: any number
    /// takes a folder of 20 GB and 1000 kills; with history: 100 million flows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    minutes: Option<u32>,
    /// Leave out cases whose results are in the folder: complete, from this build of ringtap, and from as
    /// long a run
    #[arg(long)]
    resume: bool,
    /// The ringtap program to measure, if not the one beside ringtap-bench
    // `ringtap bench` passes its own path before the arguments that it is given.
    #[arg(long, value_name = "FILE", overrides_with = "ringtap")]
    ringtap: Option<PathBuf>,
    /// The names of the experiments, and what each shows
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    if ringtap_sys::privileges::is_set_user_id() {
        notice("does not run with the set-user-ID or set-group-ID bit; use sudo");
        return ExitCode::FAILURE;
    }
    let arguments = Arguments::parse();
    // The remaining text to print.
    let done = match arguments.name.as_deref().filter(|_| !arguments.list) {
        None => Ok(names()),
        Some("show") => ringtap_bench::text(&arguments.out, arguments.case.as_deref()),
        Some("table") => ringtap_bench::markdown(&arguments.out),
        Some("report") => ringtap_bench::report(&arguments.out).map(|()| String::new()),
        Some(name) => match measured(&arguments) {
            Ok(ringtap) => {
                ringtap_bench::run(name, &options(&arguments, ringtap)).map(|()| String::new())
            }
            Err(reason) => {
                notice(reason);
                return ExitCode::FAILURE;
            }
        },
    };
    match done {
        Ok(text) => print(&text),
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

fn options(arguments: &Arguments, ringtap: PathBuf) -> Options {
    Options {
        quick: arguments.quick,
        case: arguments.case.clone(),
        minutes: arguments.minutes,
        out: arguments.out.clone(),
        ringtap,
        resume: arguments.resume,
    }
}

/// Returns the path of the program to measure.
fn measured(arguments: &Arguments) -> Result<PathBuf, String> {
    if let Some(path) = &arguments.ringtap {
        return match std::path::absolute(path) {
            Ok(path) if path.is_file() => Ok(path),
            Ok(_) => Err(format!("{}: no such program", path.display())),
            Err(error) => Err(format!("{}: {error}", path.display())),
        };
    }
    let own = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let beside = own.with_file_name("ringtap");
    if beside.is_file() {
        return Ok(beside);
    }
    Err(format!(
        "there is no program {} to measure; name one with --ringtap FILE",
        beside.display()
    ))
}

fn names() -> String {
    ringtap_bench::names()
        .map(|(name, purpose)| format!("{name:<10} {purpose}\n"))
        .collect()
}

/// Prints a text until the reader closes the output.
fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            notice(format_args!("standard output: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Writes a line to standard error, after this program's name.
fn notice(text: impl std::fmt::Display) {
    // If standard error cannot be written either, the exit status still reports the failure.
    let _ = writeln!(std::io::stderr(), "ringtap-bench: {text}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use ringtap_testkit::pages::check_options;

    use super::Arguments;

    #[test]
    fn the_page_has_the_options() {
        let mut command = Arguments::command().name("bench");
        command.build();
        check_options(&command).unwrap_or_else(|reason| panic!("{reason}"));
    }
}
