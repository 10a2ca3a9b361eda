//! `ringtap manual FOLDER`, which help does not list: writes the manual pages of all commands. `cargo xtask man`
//! and the packages use it.

mod pages;
mod recorder;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use clap::{Command, CommandFactory as _};
use ringtap_manual::{Page, Title};

use crate::cli::{Cli, ManualArgs};
use crate::notice::notice;

/// The date of the pages, in seconds since the epoch: packages set it to that of their sources.
const DATE: &str = "SOURCE_DATE_EPOCH";

/// Runs the command.
pub(crate) fn run(args: &ManualArgs) -> ExitCode {
    match write(&args.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            notice(reason);
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, text) in texts(&ringtap_manual::date(seconds())) {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Returns the time of the pages: that of the environment, else that of the program's file.
fn seconds() -> u64 {
    let given = std::env::var(DATE).ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        let built = std::env::current_exe().and_then(fs::metadata);
        let built = built.and_then(|file| file.modified()).ok();
        let since = built.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| since.as_secs())
    })
}

/// Returns the names and texts of all pages.
fn texts(date: &str) -> Vec<(String, String)> {
    let title = Title {
        section: "1",
        date,
        source: concat!("ringtap ", env!("CARGO_PKG_VERSION")),
    };
    let mut cli = Cli::command();
    cli.build();
    let mut texts = vec![text(&cli, "", &title)];
    for command in cli.get_subcommands().filter(|command| is_shown(command)) {
        let name = command.get_name();
        texts.push(text(command, name, &title));
        for below in command
            .get_subcommands()
            .filter(|command| is_shown(command))
        {
            let name = format!("{name}-{}", below.get_name());
            texts.push(text(below, &name, &title));
        }
    }
    texts
}

/// Returns whether a command has a page.
fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn text(command: &Command, name: &str, title: &Title<'_>) -> (String, String) {
    let written = pages::PAGES.iter().find(|page| page.name == name);
    let unwritten = Page::default();
    let whole = match name {
        "" => "ringtap".to_owned(),
        name => format!("ringtap-{name}"),
    };
    let text = ringtap_manual::command(&whole, command, written.unwrap_or(&unwritten), title);
    (format!("{whole}.1"), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command has a part that is written by hand, and every such part a command.
    #[test]
    fn commands_have_pages_and_pages_commands() {
        let mut names: Vec<String> = texts("2026-01-31")
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let mut written: Vec<String> = pages::PAGES
            .iter()
            .map(|page| match page.name {
                "" => "ringtap.1".to_owned(),
                name => format!("ringtap-{name}.1"),
            })
            .collect();
        names.sort();
        written.sort();
        assert_eq!(
            names, written,
            "crates/ringtap/src/manual/pages.rs has the parts"
        );
    }

    /// The command lines in the examples are valid.
    #[test]
    fn examples_are_understood() {
        let mut count = 0;
        for page in pages::PAGES {
            assert!(
                !page.examples.is_empty() && !page.description.is_empty(),
                "{}",
                page.name
            );
            for line in page.examples.iter().flat_map(|example| example.lines) {
                let words = crate::manual::tests::words(line);
                let place = words.iter().position(|word| word == "ringtap");
                let Some(place) = place.filter(|_| !line.contains("ringtap bench")) else {
                    continue;
                };
                let end = words
                    .iter()
                    .position(|word| ["|", ">", "&"].contains(&word.as_str()));
                let line = &words[place..end.unwrap_or(words.len())];
                <Cli as clap::Parser>::try_parse_from(line)
                    .unwrap_or_else(|error| panic!("{line:?}: {error}"));
                count += 1;
            }
        }
        assert!(count >= 20, "{count} examples");
    }

    /// The command lines of ringtap in the tables for users of other programs are valid.
    #[test]
    fn other_programs_lines_have_counterparts() {
        let page = ringtap_testkit::repository().join("docs/coming-from.md");
        let page = fs::read_to_string(page).expect("a page");
        let mut count = 0;
        for row in page
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains("| `ringtap "))
        {
            let (_, right) = row.split_once("| `ringtap ").expect("a cell");
            let line = format!(
                "ringtap {}",
                right.trim_end_matches(" |").trim_end_matches('`')
            );
            let parsed = <Cli as clap::Parser>::try_parse_from(words(&line));
            parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
            count += 1;
        }
        assert!(count >= 45, "{count} lines");
    }

    /// Splits a line as a shell does, for quotes without escapes.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = String::new();
        let (mut quote, mut is_begun) = (None, false);
        for letter in line.chars() {
            match (quote, letter) {
                (Some(open), letter) if letter == open => quote = None,
                (Some(_), letter) => word.push(letter),
                (None, '\'' | '"') => (quote, is_begun) = (Some(letter), true),
                (None, ' ') => {
                    if is_begun || !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                    is_begun = false;
                }
                (None, letter) => word.push(letter),
            }
        }
        if is_begun || !word.is_empty() {
            words.push(word);
        }
        words
    }
}
