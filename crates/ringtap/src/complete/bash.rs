//! The script for bash, which splits words at `:` and `=`; interfaces (`tcx:eth0`) have one.

use clap_complete::engine::CompletionCandidate;

/// Puts words together that bash has split, passes them on, and removes from the answers what stands before the
/// part that bash replaces.
pub(super) const SCRIPT: &str = r#"# Completion of ringtap for bash.
_ringtap() {
    local -a words=()
    local word rest=$COMP_LINE index=-1 place=0 prefix=
    for word in "${COMP_WORDS[@]}"; do
        if [[ $place -gt 0 && -n $word && $rest == "$word"* &&
            ($word == [:=]* || ${words[index]} == *[:=]) ]]; then
            words[index]+=$word
        else
            words[++index]=$word
        fi
        [[ -n $word ]] && rest=${rest#*"$word"}
        if [[ $place -eq $COMP_CWORD ]]; then
            # Behind a colon or an equals sign the word is still empty.
            if [[ -z $word && $index -gt 0 && ${words[index - 1]} == *[:=] && ${COMP_LINE:COMP_POINT-1:1} != ' ' ]]; then
                unset "words[index]"
                ((index--))
            fi
            break
        fi
        ((place++))
    done
    local current=${words[index]}
    [[ $current == *[:=]* ]] && prefix=${current%"${current##*[:=]}"}
    local IFS=$'\n'
    COMPREPLY=($(VARIABLE=bash COMPLETER -- "${words[@]}" 2>/dev/null))
    if [[ -n $prefix ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:/=] ]]; then
        compopt -o nospace
    fi
}
complete -o bashdefault -o nosort -F _ringtap BIN
"#;

/// Returns a candidate as the script takes it.
pub(super) fn line(candidate: &CompletionCandidate) -> String {
    candidate.get_value().to_string_lossy().into_owned()
}
