//! Options of DHCP (RFC 2132) and of DHCPv6 (RFC 8415).

use ringtap_packet::bytes::be16;

use crate::entry::{Entry, Tag};
use crate::payload::{Payload, Step};
use crate::protocol::{NameSource, Protocol};

/// The longest host name and vendor class in an entry.
const HOST: usize = 96;
const VENDOR: usize = 64;
/// Where the options begin: behind the magic cookie.
const OPTIONS: usize = 240;

/// Notes the client's host name and vendor.
pub(crate) fn step(protocol: Protocol, entry: &mut Entry, payload: &Payload<'_>) -> Step {
    if protocol == Protocol::Dhcp {
        four(entry, payload.data);
    } else {
        six(entry, payload.data.get(4..).unwrap_or_default());
    }
    if entry.has(Tag::DhcpHost) {
        Step::Both
    } else {
        Step::More
    }
}

fn four(entry: &mut Entry, data: &[u8]) {
    const PAD: u8 = 0;
    const HOST_NAME: u8 = 12;
    const VENDOR_CLASS: u8 = 60;
    const CLIENT_NAME: u8 = 81;
    const END: u8 = 255;
    let mut rest = data.get(OPTIONS..).unwrap_or_default();
    while let Some((&kind, behind)) = rest.split_first() {
        if kind == PAD {
            rest = behind;
            continue;
        }
        let Some((&len, behind)) = behind.split_first() else {
            return;
        };
        let Some((value, behind)) = behind.split_at_checked(len.into()) else {
            return;
        };
        match kind {
            HOST_NAME => put_host(entry, value),
            VENDOR_CLASS => entry.put_text(Tag::DhcpVendor, trimmed(value), VENDOR, true),
            // Flags and two codes stand before the name (RFC 4702), which is text or in the form of DNS.
            CLIENT_NAME => match value {
                [flags, _, _, name @ ..] if flags & 4 == 0 => put_host(entry, name),
                [_, _, _, name @ ..] => put_labels(entry, name),
                _ => {}
            },
            END => return,
            _ => {}
        }
        rest = behind;
    }
}

fn six(entry: &mut Entry, mut rest: &[u8]) {
    const VENDOR_CLASS: u16 = 16;
    const CLIENT_NAME: u16 = 39;
    while let (Some(kind), Some(len)) = (be16(rest, 0), be16(rest, 2)) {
        let Some((value, behind)) = rest[4..].split_at_checked(len.into()) else {
            return;
        };
        match (kind, value) {
            (CLIENT_NAME, [_, name @ ..]) => put_labels(entry, name),
            // An enterprise number and a length stand before the text.
            (VENDOR_CLASS, [_, _, _, _, _, _, class @ ..]) => {
                entry.put_text(Tag::DhcpVendor, trimmed(class), VENDOR, true);
            }
            _ => {}
        }
        rest = behind;
    }
}

/// Adds a name as labels, each with its length in front.
fn put_labels(entry: &mut Entry, mut rest: &[u8]) {
    let mut name = [0; 255];
    let mut used = 0;
    while let Some((&len @ 1..=63, behind)) = rest.split_first() {
        let Some((label, behind)) = behind.split_at_checked(len.into()) else {
            return;
        };
        let start = if used > 0 { used + 1 } else { 0 };
        let Some(place) = name.get_mut(start..start + label.len()) else {
            return;
        };
        place.copy_from_slice(label);
        if used > 0 {
            name[used] = b'.';
        }
        used = start + label.len();
        rest = behind;
    }
    put_host(entry, &name[..used]);
}

fn put_host(entry: &mut Entry, name: &[u8]) {
    let name = trimmed(name);
    if !name.is_empty() {
        entry.put_text(Tag::DhcpHost, name, HOST, true);
        entry.name_by(NameSource::Dhcp);
    }
}

/// Returns the text without zeros at its end, which some clients add.
fn trimmed(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    &text[..end]
}
