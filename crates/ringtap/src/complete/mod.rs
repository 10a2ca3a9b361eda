//! Completion of command lines in bash, zsh and fish.
//!
//! A shell's script calls the program with the variable `RINGTAP_COMPLETE` set to the name of the shell, and the
//! words so far behind `--`; the program prints what could come next. Without words it prints the script. Options
//! and commands are those of [`Cli`]; values of some options are asked of the system at that moment: interfaces,
//! timestamps of the interface, containers, network namespaces, users, groups. Nothing is opened for capturing, and
//! no privilege is needed.

mod bash;
mod values;
mod zsh;

use std::ffi::OsString;
use std::io::{Result, Write};
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::CompleteEnv;
use clap_complete::engine::{self, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Fish, Shells};

use crate::cli::Cli;

/// Asks for completion, with the name of the shell as its value.
const VARIABLE: &str = "RINGTAP_COMPLETE";

/// Answers a shell and ends the process, if a shell asks.
pub(crate) fn answer() {
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .bin("ringtap")
        .completer("ringtap")
        .shells(Shells(&[&BASH, &Fish, &ZSH]))
        .complete();
}

/// Returns the definition of the command line with the sources of values.
fn command() -> Command {
    Cli::command().mut_subcommands(|command| command.mut_args(with_values))
}

/// Adds the source of an option's values, where there is a better one than its definition.
fn with_values(argument: Arg) -> Arg {
    let completer = match argument.get_id().as_str() {
        "interface" => ArgValueCompleter::new(values::interfaces),
        "devices" => ArgValueCompleter::new(values::plain_interfaces),
        "timestamp" => ArgValueCompleter::new(values::timestamps),
        "link_type" => ArgValueCompleter::new(values::link_types),
        "user" => ArgValueCompleter::new(values::users),
        "container" => ArgValueCompleter::new(values::containers),
        "netns" => ArgValueCompleter::new(values::namespaces),
        "group" => ArgValueCompleter::new(values::groups),
        "filter" | "filters" => ArgValueCompleter::new(values::filter_words),
        _ => return argument,
    };
    argument.add(completer)
}

/// A shell with a script of our own.
struct Shell {
    name: &'static str,
    /// With the words VARIABLE, COMPLETER and BIN.
    script: &'static str,
    line: fn(&CompletionCandidate) -> String,
}

static BASH: Shell = Shell {
    name: "bash",
    script: bash::SCRIPT,
    line: bash::line,
};

static ZSH: Shell = Shell {
    name: "zsh",
    script: zsh::SCRIPT,
    line: zsh::line,
};

impl EnvCompleter for Shell {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is(&self, name: &str) -> bool {
        name == self.name
    }

    fn write_registration(
        &self,
        variable: &str,
        _name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> Result<()> {
        let script = self
            .script
            .replace("VARIABLE", variable)
            .replace("COMPLETER", &quoted(completer))
            .replace("BIN", program);
        out.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let last = words.len().saturating_sub(1);
        for candidate in engine::complete(command, words, last, folder)? {
            writeln!(out, "{}", (self.line)(&candidate))?;
        }
        Ok(())
    }
}

/// Returns a path as one word of a shell.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
