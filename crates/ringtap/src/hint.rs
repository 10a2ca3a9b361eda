//! Suggests a corrected command line for one that is invalid.

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::input::names_file;

/// Returns the command line that was probably meant. `words` are those after the program's name.
pub(crate) fn instead_of(words: &[String], kind: ErrorKind) -> Option<String> {
    let command = words.first()?;
    let is_command = Cli::command()
        .get_subcommands()
        .any(|known| known.get_name() == command);
    if !is_command {
        return without_command(words, kind);
    }
    if kind != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let reads_files = ["flow", "send"].contains(&command.as_str());
    let has_device = words
        .iter()
        .any(|word| word.starts_with("-i") || word.starts_with("--interface"));
    let option = |word: &String| match word {
        word if reads_files && names_file(word) => Some("-r"),
        word if !has_device && is_interface(word) => Some("-i"),
        _ => None,
    };
    let mut places = words.iter().enumerate().skip(1);
    let (at, option) = places.find_map(|(at, word)| option(word).map(|option| (at, option)))?;
    let mut meant = words.to_vec();
    meant.insert(at, option.to_owned());
    Some(line(&meant))
}

/// Returns the command for options, a file or an interface without a subcommand: usually tcpdump's.
fn without_command(words: &[String], kind: ErrorKind) -> Option<String> {
    let unknown = [
        ErrorKind::UnknownArgument,
        ErrorKind::InvalidSubcommand,
        ErrorKind::MissingSubcommand,
    ];
    if !unknown.contains(&kind) {
        return None;
    }
    let first = words.first()?;
    let mut meant = vec!["dump".to_owned()];
    if names_file(first) {
        meant.push("-r".to_owned());
    } else if is_interface(first) {
        meant.push("-i".to_owned());
    } else if !first.starts_with('-') {
        return None;
    }
    meant.extend_from_slice(words);
    Some(line(&meant))
}

/// Returns whether a word names an interface of this host, perhaps with an engine before it.
pub(crate) fn is_interface(word: &str) -> bool {
    let name = word.split_once(':').map_or(word, |(_, name)| name);
    !name.is_empty()
        && !name.starts_with('.')
        && !name.contains('/')
        && std::path::Path::new("/sys/class/net").join(name).is_dir()
}

/// Returns the command line in the syntax of a shell.
pub(crate) fn line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    let words: Vec<String> = quoted.collect();
    format!("ringtap {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(words: &[&str], kind: ErrorKind) -> Option<String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        instead_of(&words, kind)
    }

    #[test]
    fn a_missing_command_is_dump() {
        let unknown = ErrorKind::UnknownArgument;
        for (words, expected) in [
            (&["-i", "eth0"][..], "ringtap dump -i eth0"),
            (
                &["-ni", "eth0", "tcp port 80", "it's"],
                r"ringtap dump -ni eth0 'tcp port 80' 'it'\''s'",
            ),
            (&["lo"], "ringtap dump -i lo"),
            (&["tcx:lo", "udp"], "ringtap dump -i tcx:lo udp"),
        ] {
            assert_eq!(meant(words, unknown).as_deref(), Some(expected));
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.pcap");
        std::fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        let line = meant(&[file, "udp"], ErrorKind::InvalidSubcommand);
        assert_eq!(line, Some(format!("ringtap dump -r {file} udp")));
        let kind = ErrorKind::MissingRequiredArgument;
        for command in [&["flow"][..], &["send", "-i", "lo"]] {
            let words = [command, &[file, "udp"]].concat();
            let expected = format!("ringtap {} -r {file} udp", command.join(" "));
            assert_eq!(meant(&words, kind), Some(expected));
        }
        for (words, expected) in [
            (&["stat", "lo", "udp"][..], "ringtap stat -i lo udp"),
            (&["flow", "--top", "3", "lo"], "ringtap flow --top 3 -i lo"),
            (&["gen", "lo"], "ringtap gen -i lo"),
        ] {
            assert_eq!(meant(words, kind).as_deref(), Some(expected));
        }
    }

    #[test]
    fn where_nothing_is_known_nothing_is_said() {
        assert_eq!(
            meant(&["dmup", "-i", "eth0"], ErrorKind::InvalidSubcommand),
            None
        );
        assert_eq!(meant(&["--version"], ErrorKind::DisplayVersion), None);
        assert_eq!(meant(&["-h"], ErrorKind::DisplayHelp), None);
        assert_eq!(
            meant(&["flow", "udp"], ErrorKind::MissingRequiredArgument),
            None
        );
        assert_eq!(
            meant(&["dump", "--wrong"], ErrorKind::UnknownArgument),
            None
        );
        assert_eq!(meant(&[], ErrorKind::MissingSubcommand), None);
    }
}
