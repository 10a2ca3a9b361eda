//! The link types that filters can be compiled for.

use std::fmt::Write as _;

use ringtap_capture::LinkType;
use ringtap_filter::{CompileOptions, Tables, compile};

/// Returns a line for each link type: its name and its header.
pub(super) fn list() -> String {
    let mut text = String::new();
    for link_type in LinkType::known().filter(is_supported) {
        let name = link_type.name().unwrap_or_default();
        let description = link_type.description().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<24} {description}");
    }
    text
}

/// Returns whether a filter that looks at packets is compiled.
fn is_supported(link_type: &LinkType) -> bool {
    let options = CompileOptions::new(*link_type);
    compile("len > 0", &options, &Tables::new()).is_ok()
}
