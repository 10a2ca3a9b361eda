//! The script for zsh: one that can be sourced, and loaded by its name from a folder of functions.

use clap_complete::engine::CompletionCandidate;

/// Passes the words on, and shows the answers with their descriptions. A colon within an answer has a backslash.
pub(super) const SCRIPT: &str = r#"#compdef BIN
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

/// Returns a candidate as the script takes it: the value, a colon and the first line of its help.
pub(super) fn line(candidate: &CompletionCandidate) -> String {
    let value = candidate.get_value().to_string_lossy();
    let value = value.replace('\\', "\\\\").replace(':', "\\:");
    let help = candidate.get_help().map(ToString::to_string);
    match help.unwrap_or_default().lines().next() {
        Some(help) => format!("{value}:{help}"),
        None => value,
    }
}
