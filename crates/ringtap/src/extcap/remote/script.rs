//! The programs of the shell that run ringtap on the other machine.
//!
//! They are sent through standard input, since nobody knows how the user's login shell reads quotes: it gets the
//! command of [`starter`] only, which every shell understands. Behind the program, standard input has the copy of
//! ringtap, if one is sent, and then nothing: its end is the end of the capture.

use std::fmt::Write as _;

/// The exit status that stands for a missing program.
pub(super) const MISSING: i32 = 96;
/// The exit status that stands for a machine of another type, which is printed.
pub(super) const OTHER_MACHINE: i32 = 97;

/// The folders of programs that a login without a terminal may not have in its search path.
const FOLDERS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The ringtap that is run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program<'a> {
    /// An installed one, by name or path.
    Installed(&'a str),
    /// A copy of this many bytes, which follows the script, for this type of machine (`uname -m`).
    Copied { bytes: u64, machine: &'a str },
}

/// Returns the command for the user's login shell. It reads exactly this many bytes and runs them.
pub(super) fn starter(bytes: usize) -> String {
    format!("exec sh -c 'eval \"$(dd bs=1 count={bytes} 2>/dev/null)\"'")
}

/// Returns the script. The options of the command line have the connection of this session added.
pub(super) fn text(
    program: Program<'_>,
    has_sudo: bool,
    options: &[String],
    filter: Option<&str>,
) -> String {
    let mut text = format!("PATH=\"$PATH:{FOLDERS}\"\nset --");
    for word in options {
        text.push(' ');
        text += &quoted(word);
    }
    text += " \"--exclude-ssh=$SSH_CONNECTION\"";
    if let Some(filter) = filter {
        text += " -- ";
        text += &quoted(filter);
    }
    text.push('\n');
    let before = if has_sudo { "sudo -n -- " } else { "" };
    // Writing to a string cannot fail.
    let _ = match program {
        Program::Installed(name) => write!(
            text,
            "program=$(command -v {}) || exit {MISSING}\nexec {before}\"$program\" \"$@\"\n",
            quoted(name)
        ),
        Program::Copied { bytes, machine } => write!(
            text,
            "machine=$(uname -m)\n\
             [ \"$machine\" = {} ] || {{ echo \"$machine\" >&2; exit {OTHER_MACHINE}; }}\n\
             trap '' PIPE\n\
             umask 077\n\
             folder=$(mktemp -d \"${{TMPDIR:-/tmp}}/ringtap.XXXXXXXXXX\") || exit 1\n\
             trap 'rm -rf -- \"$folder\"' EXIT\n\
             trap 'exit 1' HUP INT TERM\n\
             copy=$folder/ringtap\n\
             head -c {bytes} >\"$copy\" && chmod 700 \"$copy\" || exit 1\n\
             [ \"$(wc -c <\"$copy\")\" -eq {bytes} ] || {{ echo 'the copy of ringtap is incomplete' >&2; exit 1; }}\n\
             {before}\"$copy\" \"$@\"\n",
            quoted(machine)
        ),
    };
    text
}

/// Returns a word that a POSIX shell reads as this text.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs a script with a program that prints its arguments, one a line.
    fn arguments(options: &[String], filter: Option<&str>) -> String {
        let script = text(Program::Installed("printf"), false, options, filter);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("SSH_CONNECTION", "a 1 b 2");
        let output = shell.output().expect("a shell");
        String::from_utf8(output.stdout).expect("a text")
    }

    #[test]
    fn a_shell_reads_each_word_as_it_is() {
        let hostile = "'; touch /x; $(id) `id` \"$HOME\" \\ *\n&";
        let options = ["<%s>".to_owned(), hostile.to_owned(), String::new()];
        assert_eq!(
            arguments(&options, Some("tcp or $x")),
            format!("<{hostile}><><--exclude-ssh=a 1 b 2><--><tcp or $x>")
        );
    }

    #[test]
    fn the_starter_reads_no_more_than_the_script() {
        let script = "cat";
        let mut shell = Command::new("sh");
        let output = shell
            .args(["-c", "printf 'catrest' | sh -c \"$0\""])
            .arg(starter(script.len()))
            .output()
            .expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "rest");
    }
}
