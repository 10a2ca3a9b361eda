//! The script for zsh: one that can be sourced, and loaded by its name from a folder of functions.

use std::ffi::OsString;
use std::io::{Result, Write};
use std::path::Path;

use clap::Command;
use clap_complete::engine;
use clap_complete::env::EnvCompleter;

/// Passes the words on, and shows the answers with their descriptions. A colon within an answer has a backslash.
const SCRIPT: &str = r#"#compdef BIN
# Completion of ringtap for zsh.
_ringtap() {
    local -a answers complete open
    answers=("${(@f)$(VARIABLE=zsh COMPLETER -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    local answer
    for answer in $answers; do
        # The value is before the first colon that has no backslash.
        local value=${answer//\\:/$'\1'}
        value=${value%%:*}
        if [[ $value == *[$'\1'/] ]]; then
            open+=("$answer")
        else
            complete+=("$answer")
        fi
    done
    # Behind an engine or a folder the word goes on: no space is added.
    (( $#open )) && _describe -V 'values' open -S ''
    (( $#complete )) && _describe -V 'values' complete
}
if [[ "$funcstack[1]" == _ringtap ]]; then
    _ringtap "$@"
else
    compdef _ringtap BIN
fi
"#;

/// Completion for zsh.
pub(super) struct Zsh;

impl EnvCompleter for Zsh {
    fn name(&self) -> &'static str {
        "zsh"
    }

    fn is(&self, name: &str) -> bool {
        name == "zsh"
    }

    fn write_registration(
        &self,
        variable: &str,
        _name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> Result<()> {
        let script = SCRIPT
            .replace("VARIABLE", variable)
            .replace("COMPLETER", &super::quoted(completer))
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
            let value = candidate.get_value().to_string_lossy();
            let value = value.replace('\\', "\\\\").replace(':', "\\:");
            let help = candidate
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            match help.lines().next() {
                Some(help) => writeln!(out, "{value}:{help}")?,
                None => writeln!(out, "{value}")?,
            }
        }
        Ok(())
    }
}
