//! The page of a command.

use clap::Command;
use roff::{Roff, bold, roman};

use crate::text::{literal, marked, tidy};
use crate::{Title, begin, options};

/// The parts of a command's page that are written by hand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Page {
    /// The command's name, such as `dump`; empty for the program itself.
    pub name: &'static str,
    /// The paragraphs of the description. Words between backticks are set in bold.
    pub description: &'static [&'static str],
    /// Command lines that can be used as they are.
    pub examples: &'static [Example],
    /// Files that the command uses without being told, and what they are for.
    pub files: &'static [(&'static str, &'static str)],
    /// Causes of exit status 1 that are special to the command.
    pub failures: &'static [&'static str],
    /// Other pages, such as `tcpdump(8)`.
    pub see_also: &'static [&'static str],
}

/// An example: a sentence about it, and its lines.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The purpose, as a sentence.
    pub purpose: &'static str,
    /// The lines for the shell.
    pub lines: &'static [&'static str],
}

/// Returns the page `whole`, such as `ringtap-dump`, of a command that is built ([`Command::build`]).
#[must_use]
pub fn command(whole: &str, command: &Command, page: &Page, title: &Title<'_>) -> String {
    let about = command.get_about().map(ToString::to_string);
    let about = uncapitalized(&about.unwrap_or_default());
    let mut roff = begin(whole, &about, title);
    synopsis(&mut roff, command);
    roff.control("SH", ["DESCRIPTION"]);
    paragraphs(&mut roff, page.description);
    options::add(&mut roff, command);
    commands(&mut roff, whole, command, title.section);
    examples(&mut roff, page.examples);
    exit_status(&mut roff, page.failures);
    files(&mut roff, page.files);
    see_also(&mut roff, whole, page);
    tidy(&roff.to_roff())
}

/// Adds the forms of the command line, as the usage shows them.
fn synopsis(roff: &mut Roff, command: &Command) {
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    let forms = usage.trim_start_matches("Usage:").lines();
    let forms = forms.map(str::trim).filter(|form| !form.is_empty());
    for (index, form) in forms.enumerate() {
        if index > 0 {
            roff.control("br", []);
        }
        let is_name = |word: &&str| {
            word.chars()
                .next()
                .is_some_and(|first| first.is_ascii_lowercase())
        };
        let names: Vec<&str> = form.split(' ').take_while(is_name).collect();
        let names = names.join(" ");
        roff.text([bold(names.as_str()), roman(&form[names.len()..])]);
    }
}

fn paragraphs(roff: &mut Roff, paragraphs: &[&str]) {
    for (index, paragraph) in paragraphs.iter().enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        marked(roff, paragraph);
    }
}

/// Adds the list of subcommands that have pages.
fn commands(roff: &mut Roff, whole: &str, command: &Command, section: &str) {
    let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    let mut subcommands = command.get_subcommands().filter(shown).peekable();
    if subcommands.peek().is_none() {
        return;
    }
    roff.control("SH", ["COMMANDS"]);
    for sub in subcommands {
        roff.control("TP", []);
        roff.text([
            bold(format!("{whole}-{}", sub.get_name())),
            roman(format!("({section})")),
        ]);
        let about = sub.get_about().map(ToString::to_string);
        roff.text([roman(about.unwrap_or_default())]);
    }
}

fn examples(roff: &mut Roff, examples: &[Example]) {
    if examples.is_empty() {
        return;
    }
    roff.control("SH", ["EXAMPLES"]);
    for (index, example) in examples.iter().enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        marked(roff, example.purpose);
        literal(roff, example.lines);
    }
}

fn exit_status(roff: &mut Roff, failures: &[&str]) {
    roff.control("SH", ["EXIT STATUS"]);
    let mut failure = String::from("Something failed while the command ran.");
    for special in failures {
        failure += " ";
        failure += special;
    }
    let usage = "The command line is invalid, and nothing was done.";
    for (status, meaning) in [("0", "Success."), ("1", failure.as_str()), ("2", usage)] {
        roff.control("TP", ["5"]);
        roff.text([bold(status)]);
        marked(roff, meaning);
    }
}

fn files(roff: &mut Roff, files: &[(&str, &str)]) {
    if files.is_empty() {
        return;
    }
    roff.control("SH", ["FILES"]);
    for (path, purpose) in files {
        roff.control("TP", []);
        roff.text([bold(*path)]);
        marked(roff, purpose);
    }
}

/// Adds the other pages, with that of the program first.
fn see_also(roff: &mut Roff, whole: &str, page: &Page) {
    roff.control("SH", ["SEE ALSO"]);
    let program = whole
        .split_once('-')
        .map(|(program, _)| format!("{program}(1)"));
    let own = program.as_deref();
    let mut pages: Vec<&str> = own
        .into_iter()
        .chain(page.see_also.iter().copied())
        .collect();
    // By section, then by name, as manuals have them.
    pages.sort_by_key(|page| page.split_once('(').map(|(name, section)| (section, name)));
    let mut line = Vec::new();
    for (index, page) in pages.iter().enumerate() {
        let (name, section) = page.split_once('(').unwrap_or((page, ""));
        line.push(bold(name));
        let end = if index + 1 < pages.len() { ", " } else { "" };
        line.push(roman(format!("({section}{end}")));
    }
    roff.text(line);
    roff.control("PP", []);
    marked(
        roff,
        "The pages in `/usr/share/doc/ringtap` describe formats, engines and privileges.",
    );
}

/// Returns a sentence that continues after a dash.
fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string());
    format!("{}{}", first.unwrap_or_default(), letters.as_str())
        .trim_end_matches('.')
        .to_owned()
}
