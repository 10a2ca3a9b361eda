//! Configuration files in TOML: a table for each command, with the command's long options as its keys.
//!
//! `--config FILE` puts the options of a table in front of those of the command line ([`with_file`]), so there is
//! one definition of every option, [`Cli`], and a file means what the same command line means.
//! `ringtap config check FILE` tries every value by that definition ([`check`]).

mod check;
mod error;
mod table;

use std::ffi::OsString;
use std::path::Path;

use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};

use crate::cli::Cli;
pub(crate) use check::run;
pub(crate) use error::ConfigError;
use table::{File, Table};

/// The argument that names the file, in the definitions of the commands that take one.
const ARGUMENT: &str = "config";

/// A command line that cannot be run.
pub(crate) enum Refused {
    /// It is invalid by itself, or asks for help; `has_file` tells whether options of a file are part of it.
    Words { error: clap::Error, has_file: bool },
    /// The file is invalid.
    File(ConfigError),
}

/// Parses a command line, with the options of the file that it names.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, Refused> {
    let definition = Cli::command();
    let Some((command, path)) = named(&definition, words) else {
        let parsed = <Cli as clap::Parser>::try_parse_from(words);
        return parsed.map_err(|error| Refused::Words {
            error,
            has_file: false,
        });
    };
    let file = File::read(Path::new(path)).map_err(Refused::File)?;
    let table = file
        .table(command, &known(&definition))
        .map_err(Refused::File)?;
    let matches = with_file(&definition, command, &table, words)?;
    Cli::from_arg_matches(&matches).map_err(Refused::with_file)
}

impl Refused {
    fn with_file(error: clap::Error) -> Self {
        Self::Words {
            error,
            has_file: true,
        }
    }
}

/// Returns the command and the file that a command line names, if it names one.
fn named<'a>(definition: &'a Command, words: &'a [OsString]) -> Option<(&'a Command, &'a str)> {
    let name = words.get(1)?.to_str()?;
    let command = definition
        .get_subcommands()
        .find(|command| command.get_name() == name)?;
    if !takes_file(command) {
        return None;
    }
    let mut words = words
        .iter()
        .skip(2)
        .map_while(|word| word.to_str())
        .take_while(|word| *word != "--");
    loop {
        let word = words.next()?;
        if word == "--config" {
            return Some((command, words.next()?));
        }
        if let Some(path) = word.strip_prefix("--config=") {
            return Some((command, path));
        }
    }
}

/// Returns whether a command takes a configuration file.
fn takes_file(command: &Command) -> bool {
    command
        .get_arguments()
        .any(|argument| argument.get_id() == ARGUMENT)
}

/// Returns the names of the commands that take a configuration file.
fn known(definition: &Command) -> Vec<&str> {
    let commands = definition
        .get_subcommands()
        .filter(|command| takes_file(command));
    commands.map(Command::get_name).collect()
}

/// Parses the words of the command line behind those of the table. An option of the command line takes the place
/// of the file's; options that may be given several times add up, and a filter of the command line is the only one.
fn with_file(
    definition: &Command,
    command: &Command,
    table: &Table<'_>,
    words: &[OsString],
) -> Result<ArgMatches, Refused> {
    // Each value is tried alone first: only then its line is known.
    table
        .check(command)
        .map_err(|mut errors| Refused::File(errors.remove(0)))?;
    let name = command.get_name().to_owned();
    let mut definition = definition
        .clone()
        .mut_subcommand(&name, |command| command.args_override_self(true));
    let mut all: Vec<OsString> = words[..2].to_vec();
    all.extend(table.words().map(OsString::from));
    all.extend(words[2..].iter().cloned());
    let matches = definition
        .try_get_matches_from_mut(&all)
        .map_err(Refused::with_file)?;
    let Some((argument, text)) = table.filter(command) else {
        return Ok(matches);
    };
    let below = matches.subcommand_matches(&name);
    if below.is_some_and(|below| below.value_source(&argument).is_some()) {
        return Ok(matches);
    }
    all.extend(["--".into(), text.into()]);
    definition
        .try_get_matches_from_mut(&all)
        .map_err(Refused::with_file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command as Chosen;

    fn parsed(text: &str, line: &str) -> Result<Cli, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.toml");
        std::fs::write(&path, text).expect("written");
        let line = line.replace("FILE", &path.to_string_lossy());
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        parse(&words).map_err(|refused| match refused {
            Refused::Words { error, has_file } => {
                assert!(has_file);
                error.to_string()
            }
            Refused::File(error) => error.to_string().replace(&*path.to_string_lossy(), "FILE"),
        })
    }

    fn flow(text: &str, line: &str) -> crate::cli::FlowArgs {
        match parsed(text, line)
            .unwrap_or_else(|error| panic!("{error}"))
            .command
        {
            Chosen::Flow(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_a_part_of_the_command_line() {
        let text = "[flow]\nactive = \"60s\"\nbiflow = true\ntcp = false\ntop = 3\nfilter = \"udp port 53\"\n\
                    tunnels = [\"gre\", \"vxlan\"]\n";
        let args = flow(text, "ringtap flow --config FILE -i eth0");
        assert_eq!(args.meter.active.as_secs(), 60);
        assert!(args.meter.biflow && !args.meter.tcp);
        assert_eq!((args.report.top, args.meter.tunnels.len()), (3, 2));
        assert_eq!(args.filter, ["udp port 53"]);
        assert_eq!(args.source.interface.as_deref(), Some("eth0"));
    }

    #[test]
    fn the_command_line_wins() {
        let text = "[flow]\ntop = 3\ninterface = \"lo\"\nfilter = \"udp\"\nexport = [\"udp:127.0.0.1:1\"]\n";
        let line =
            "ringtap flow --config=FILE --top 5 -i eth0 --export udp:127.0.0.1:2 tcp port 80";
        let args = flow(text, line);
        assert_eq!(
            (args.report.top, args.source.interface.as_deref()),
            (5, Some("eth0"))
        );
        assert_eq!(args.filter, ["tcp", "port", "80"]);
        assert_eq!(args.records.export.len(), 2);
    }

    #[test]
    fn errors_name_file_line_and_key() {
        let line = "ringtap flow --config FILE -i eth0";
        for (text, expected) in [
            ("[flow]\n\nactive = \"x\"\n", "FILE:3: active: "),
            ("[flow]\ntop = 99999\n", "FILE:2: top: "),
            (
                "[flow]\nbiflow = 1\n",
                "FILE:2: biflow: expected true or false, found an integer",
            ),
            (
                "[flow]\nactive = [\"1s\"]\n",
                "FILE:2: active: takes one value, found an array",
            ),
            (
                "[flow]\nactve = \"1s\"\n",
                "FILE:2: actve: no such option of ringtap flow; did you mean active?",
            ),
            (
                "[flow]\nconfig = \"x\"\n",
                "FILE:2: config: no such option of ringtap flow",
            ),
            (
                "[flo]\n",
                "FILE:1: flo: no such command with a configuration: expected ",
            ),
            ("top = 1\n", "FILE:1: top: expected a table, such as [flow]"),
            ("[flow]\ntop = \n", "FILE:2: "),
            (
                "[flow]\ntop = 1979-05-27\n",
                "FILE:2: top: expected a number, a text or true, found a date",
            ),
            ("[flow]\nfilter = \"prot 53\"\n", "FILE:2: filter: "),
            ("[web]\n", "FILE: no table [flow]"),
        ] {
            let error = parsed(text, line).expect_err(text);
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn other_command_lines_are_left_alone() {
        let words: Vec<OsString> = ["ringtap", "dump", "-r", "x", "--count"]
            .map(OsString::from)
            .to_vec();
        assert!(parse(&words).is_ok());
    }
}
