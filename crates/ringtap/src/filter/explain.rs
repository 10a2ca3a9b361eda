//! Explains the program in words, with its cost in each form.

use std::fmt::Write as _;

use ringtap_capture::LinkType;
use ringtap_filter::Program;
use ringtap_filter::explain::Explanation;
use ringtap_jit::MachineCode;

use super::form::ebpf_code;
use crate::cli::Hook;

/// Returns the explanation of a program for packets of a link type.
pub(super) fn text(program: &Program, link_type: LinkType, hook: Hook) -> String {
    let mut text = Explanation::new(program, link_type).to_string();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{value}");
    };
    line(
        "eBPF",
        match ebpf_code(program, hook) {
            Ok(code) => format!("{} words at {}", code.len(), hook.place()),
            Err(error) => error.to_string(),
        },
    );
    line(
        "native code",
        match MachineCode::of(program) {
            Ok(code) => format!("{} bytes", code.bytes().len()),
            Err(error) => error.to_string(),
        },
    );
    let description = link_type.description().unwrap_or("unnamed");
    line("link type", format!("{link_type} ({description})"));
    text
}
