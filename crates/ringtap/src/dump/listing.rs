//! `ringtap dump -D` and `-L`: list interfaces and link types in the lines of `tcpdump -D` and `-L`. The
//! numbers are the interfaces' own, which `-i` accepts.

use ringtap_capture::LinkType;
use ringtap_capture::devices::{self, DeviceInfo};

use super::error::{DumpError, UsageError};
use super::program;
use crate::filter;
use crate::output;
use crate::setup::setup;

/// Prints a line for each interface, and for all of them together.
pub(super) fn interfaces() -> Result<(), DumpError> {
    let found = devices::list().map_err(|error| setup("list the devices", error))?;
    let lines: String = found.iter().map(line).collect();
    print(&lines)
}

fn line(device: &DeviceInfo) -> String {
    let name = devices::escape(device.name.as_bytes());
    if device.is_any() {
        return format!("{name} (all interfaces together) [Up, Running]\n");
    }
    let flags = device.flags;
    let carrier = match device.carrier {
        _ if flags.is_loopback() => None,
        Some(true) => Some("Connected"),
        Some(false) => Some("Disconnected"),
        None => None,
    };
    let states = [
        flags.is_up().then_some("Up"),
        flags.is_running().then_some("Running"),
        flags.is_loopback().then_some("Loopback"),
        carrier,
    ];
    let states: Vec<&str> = states.into_iter().flatten().collect();
    let states = match states[..] {
        [] => "none".to_owned(),
        _ => states.join(", "),
    };
    format!("{}.{name} [{states}]\n", device.index)
}

/// Prints the link types of a device: on Linux it has one.
pub(super) fn link_types(device: Option<&str>) -> Result<(), DumpError> {
    let device = program::device(device)?;
    let name = devices::escape(device.name.as_bytes());
    let description = device.link_type.description().unwrap_or_default();
    print(&format!(
        "Data link types for {name} (use option -y to set):\n  {} ({description})\n",
        device.link_type
    ))
}

/// Rejects a link type that the device's packets do not have.
pub(super) fn check_link_type(device: Option<&str>, asked: &str) -> Result<(), DumpError> {
    let wanted: LinkType = filter::link_type(asked).map_err(|_| {
        let name = asked.to_owned();
        DumpError::Usage(UsageError::LinkType { name })
    })?;
    let device = program::device(device)?;
    if device.link_type == wanted {
        return Ok(());
    }
    Err(DumpError::Usage(UsageError::OtherLinkType {
        device: devices::escape(device.name.as_bytes()).to_string(),
        is: device.link_type.to_string(),
        asked: asked.to_owned(),
    }))
}

fn print(text: &str) -> Result<(), DumpError> {
    output::print(text).map_err(|source| DumpError::Print { packets: 0, source })
}
