//! The options of a command, in a section for each heading of its help.

use clap::builder::{PossibleValue, StyledStr};
use clap::{Arg, Command};
use roff::{Inline, Roff, bold, italic, roman};

/// The heading of options that have none.
const OPTIONS: &str = "OPTIONS";

/// Adds the options that help lists, in its order.
pub(crate) fn add(roff: &mut Roff, command: &Command) {
    let shown = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    let mut sections: Vec<(String, Vec<&Arg>)> = Vec::new();
    for argument in shown {
        let heading = argument
            .get_help_heading()
            .map_or(OPTIONS.to_owned(), str::to_uppercase);
        match sections.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, arguments)) => arguments.push(argument),
            None => sections.push((heading, vec![argument])),
        }
    }
    for (heading, mut arguments) in sections {
        roff.control("SH", [heading.as_str()]);
        // Words without a name come first, as in help.
        arguments.sort_by_key(|argument| !argument.is_positional());
        for argument in arguments {
            roff.control("TP", []);
            roff.text(names(argument));
            roff.text([roman(meaning(argument))]);
        }
    }
}

/// Returns all names of an option, with its value.
fn names(argument: &Arg) -> Vec<Inline> {
    let mut line = Vec::new();
    let short = argument.get_short().map(|short| format!("-{short}"));
    let aliases = argument.get_visible_aliases().unwrap_or_default();
    let long = argument.get_long().into_iter().chain(aliases);
    for name in short
        .into_iter()
        .chain(long.map(|long| format!("--{long}")))
    {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.push(bold(name));
    }
    if argument.get_action().takes_values() {
        let values = argument.get_value_names().unwrap_or_default();
        for value in values {
            if !line.is_empty() {
                line.push(roman(" "));
            }
            line.push(italic(value.as_str()));
        }
        if argument.is_positional()
            && argument
                .get_num_args()
                .is_some_and(|range| range.max_values() > 1)
        {
            line.push(roman(" ..."));
        }
    }
    line
}

/// Returns the help of an option with its values, as far as the help does not name them, and its default.
fn meaning(argument: &Arg) -> String {
    let mut meaning = text(argument.get_long_help().or(argument.get_help()));
    if !argument.get_action().takes_values() {
        return meaning;
    }
    let values: Vec<PossibleValue> = argument
        .get_possible_values()
        .into_iter()
        .filter(|value| !value.is_hide_set())
        .collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '-';
    let is_named = |name: &str| meaning.split(|c| !is_word(c)).any(|word| word == name);
    if !values
        .iter()
        .all(|value| value.get_help().is_none() && is_named(value.get_name()))
    {
        let list: Vec<String> = values.iter().map(value).collect();
        meaning += &format!(": {}", list.join(", "));
    }
    if let Some(default) = argument.get_default_values().first() {
        meaning += &format!(" (default: {})", default.to_string_lossy());
    }
    meaning
}

/// Returns a value that an option accepts, with its help.
fn value(value: &PossibleValue) -> String {
    match value.get_help() {
        Some(help) => format!("{} ({})", value.get_name(), text(Some(help))),
        None => value.get_name().to_owned(),
    }
}

fn text(help: Option<&StyledStr>) -> String {
    help.map(ToString::to_string)
        .unwrap_or_default()
        .replace('\n', " ")
}
