//! The tables of options in `docs/reference/`, generated from a command's own definition. A test of
//! each program compares them with the pages; `cargo xtask options` makes the same tests write
//! them.

use std::path::Path;

use clap::builder::{PossibleValue, StyledStr};
use clap::{Arg, Command};

/// Set by `cargo xtask options`: the tests write the tables instead of comparing them.
const WRITE: &str = "RINGTAP_WRITE_OPTIONS";
const BEGIN: &str = "<!-- options: begin; written by `cargo xtask options` -->\n";
const END: &str = "<!-- options: end -->";
/// The options of this heading are the same for every command, and a page describes them.
const PRIVILEGES: &str = "Privileges";
const PRIVILEGES_ROW: &str =
    "| `-Z USER`, `--no-sandbox` | see [privileges](../explanation/privileges.md) |\n";

/// Compares the options in a page of `docs/reference/` with those of its command: `NAME.md` with
/// the command NAME. With `RINGTAP_WRITE_OPTIONS` set, the page is written instead.
///
/// # Errors
/// Returns an error if the page is missing, has no block of options, differs from the command's
/// help, or cannot be written.
pub fn check_options(command: &Command) -> Result<(), String> {
    let folder = crate::repository().join("docs/reference");
    let path = folder.join(format!("{}.md", command.get_name()));
    check_page(&path, command).map_err(|reason| format!("{}: {reason}", path.display()))
}

fn check_page(path: &Path, command: &Command) -> Result<(), String> {
    let page = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let new = replaced(&page, (BEGIN, END), &tables(command)).ok_or("no block of options")?;
    write_or_compare(path, &page, &new)
}

fn write_or_compare(path: &Path, old: &str, new: &str) -> Result<(), String> {
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, new).map_err(|error| error.to_string())
    } else if new == old {
        Ok(())
    } else {
        Err("differs from --help: cargo xtask options writes it".to_owned())
    }
}

/// Compares the block between the lines `begin` and `end` in a page of `docs/reference/` with `text`. With
/// `RINGTAP_WRITE_OPTIONS` set, the page is written instead.
///
/// # Errors
/// Returns an error if the page is missing, has no such block, differs, or cannot be written.
pub fn check_block(page: &str, begin: &str, end: &str, text: &str) -> Result<(), String> {
    let path = crate::repository().join("docs/reference").join(page);
    let explain = |reason: String| format!("{}: {reason}", path.display());
    let old = std::fs::read_to_string(&path).map_err(|error| explain(error.to_string()))?;
    let new = replaced(&old, (begin, end), text);
    let new = new.ok_or_else(|| explain(format!("no block {begin}")))?;
    write_or_compare(&path, &old, &new).map_err(explain)
}

/// Returns a table for each heading of a command's options.
fn tables(command: &Command) -> String {
    let mut headings: Vec<Option<&str>> = vec![None];
    let mut rows: Vec<String> = vec![String::new()];
    for argument in command.get_arguments().filter(|one| is_shown(one)) {
        let heading = argument.get_help_heading();
        let place = headings.iter().position(|known| *known == heading);
        let place = place.unwrap_or_else(|| {
            headings.push(heading);
            rows.push(String::new());
            rows.len() - 1
        });
        match heading {
            Some(PRIVILEGES) => rows[place] = PRIVILEGES_ROW.to_owned(),
            _ => rows[place] += &row(argument),
        }
    }
    let tables = headings.iter().zip(&rows).map(|(heading, rows)| {
        let title = heading.unwrap_or("option");
        format!("| {} | meaning |\n|---|---|\n{rows}", title.to_lowercase())
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// Returns whether an argument is an option in the help, except the help and the version.
fn is_shown(argument: &Arg) -> bool {
    let help = text(argument.get_help());
    !argument.is_positional()
        && !argument.is_hide_set()
        && !help.starts_with("Print help")
        && !help.starts_with("Print version")
}

fn row(argument: &Arg) -> String {
    let mut names: Vec<String> = Vec::new();
    names.extend(argument.get_short().map(|short| format!("-{short}")));
    names.extend(argument.get_long().map(|long| format!("--{long}")));
    for alias in argument.get_visible_aliases().unwrap_or_default() {
        names.push(format!("--{alias}"));
    }
    let takes_value = argument.get_action().takes_values();
    if let (true, Some(name)) = (takes_value, names.last_mut()) {
        let values = argument.get_value_names().unwrap_or_default();
        name.extend(values.iter().map(|value| format!(" {value}")));
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let meaning = meaning(argument, takes_value);
    format!("| {} | {meaning} |\n", names.join(", "))
}

fn meaning(argument: &Arg, takes_value: bool) -> String {
    let mut meaning = text(argument.get_long_help().or(argument.get_help()));
    if !takes_value {
        return escaped(&meaning);
    }
    let values = argument.get_possible_values();
    let is_word = |c: char| c.is_alphanumeric() || c == '-';
    let is_named = |name: &str| meaning.split(|c| !is_word(c)).any(|word| word == name);
    let is_explained =
        |value: &PossibleValue| value.get_help().is_none() && is_named(value.get_name());
    if !values.iter().all(is_explained) {
        let list: Vec<String> = values.iter().map(value).collect();
        meaning += &format!(": {}", list.join(", "));
    }
    if let Some(default) = argument.get_default_values().first() {
        meaning += &format!(" (default: `{}`)", default.to_string_lossy());
    }
    escaped(&meaning)
}

/// Returns a value that an option accepts, with its help.
fn value(value: &PossibleValue) -> String {
    match value.get_help() {
        Some(help) => format!("`{}` ({})", value.get_name(), text(Some(help))),
        None => format!("`{}`", value.get_name()),
    }
}

/// Returns a text as a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

fn text(help: Option<&StyledStr>) -> String {
    let text = help.map(ToString::to_string).unwrap_or_default();
    text.replace('\n', " ")
}

/// Returns a page with a block replaced, if it has one.
fn replaced(page: &str, (begin, end): (&str, &str), text: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{text}{end}{after}"))
}
