//! The process of a packet: `[nginx:1234 container web]`.

use ringtap_packet::process::{PacketProcess, ProcessDescription, ProcessTable};

use super::line::Line;

/// Writes the process with a blank behind it. `>` marks one that sent a packet which was captured where it was
/// received.
pub(crate) fn print(line: &mut Line, process: &PacketProcess<'_>, table: &ProcessTable) {
    line.str("[");
    if let Some(tag) = &process.tag {
        if tag.is_sender() {
            line.str(">");
        }
        line.escaped(tag.comm());
        line.str(":");
    }
    line.number(process.pid);
    let described = process.tag.as_ref().and_then(|tag| table.get(tag));
    if let Some(container) = described.and_then(ProcessDescription::container) {
        line.str(" container ");
        line.escaped(container.label().as_bytes());
        let named = container.names.map(|names| names.pod.as_str());
        if let Some(pod) = named.filter(|name| !name.is_empty()).or(container.pod) {
            line.str(" pod ");
            line.escaped(pod.as_bytes());
        }
    }
    line.str("] ");
}
