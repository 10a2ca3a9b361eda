//! `ringtap config check FILE`: everything in a file that can be judged without running a command.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::error::ConfigError;
use super::table::File;
use super::{Refused, known, with_file};
use crate::cli::{Cli, ConfigArgs, ConfigCommand};
use crate::exit::USAGE;
use crate::notice::notice;

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs) -> ExitCode {
    let ConfigCommand::Check { files } = &args.command;
    let mut is_valid = true;
    for path in files {
        match check(path) {
            Ok(lines) => lines.iter().for_each(|line| println!("{line}")),
            Err(errors) => {
                is_valid = false;
                errors.iter().for_each(notice);
            }
        }
    }
    if is_valid {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(USAGE)
    }
}

/// Returns a line for each table, or all errors of the file.
fn check(path: &Path) -> Result<Vec<String>, Vec<ConfigError>> {
    let file = File::read(path).map_err(|error| vec![error])?;
    let definition = Cli::command();
    let known = known(&definition);
    let mut errors: Vec<ConfigError> = file.stray(&known).into_iter().collect();
    let mut lines = Vec::new();
    for name in file.names() {
        let command = definition
            .find_subcommand(name)
            .filter(|_| known.contains(&name));
        let Some((command, table)) =
            command.and_then(|command| Some((command, file.find(command)?)))
        else {
            continue;
        };
        if let Err(found) = table.check(command) {
            errors.extend(found);
            continue;
        }
        let words = ["ringtap", name].map(OsString::from);
        match with_file(&definition, command, &table, &words) {
            Ok(_) => {}
            // The source of packets may come from the command line, as in the units for systemd.
            Err(Refused::Words { error, .. })
                if error.kind() == ErrorKind::MissingRequiredArgument => {}
            Err(Refused::Words { error, .. }) => {
                let text = error.to_string();
                let reason = text
                    .trim_start_matches("error: ")
                    .lines()
                    .next()
                    .unwrap_or_default();
                errors.push(ConfigError::whole(path, reason).of(&format!("[{name}]")));
            }
            Err(Refused::File(error)) => errors.push(error),
        }
        lines.push(format!(
            "{}: [{name}] is valid, {}",
            path.display(),
            crate::notice::counted(table.len() as u64, "option")
        ));
    }
    if errors.is_empty() {
        Ok(lines)
    } else {
        Err(errors)
    }
}
