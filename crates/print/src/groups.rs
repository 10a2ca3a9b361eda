//! The common parts of reports about multicast groups: IGMP version 3 (RFC 3376) and MLD version 2
//! (RFC 3810).

use super::bytes::{Bytes, Result};
use super::context::Context;
use super::line::{Address, end, put};

/// The parts that depend on the address family.
pub(super) struct Family {
    /// The size of an address in bytes.
    size: usize,
    bad_type: &'static str,
    read: fn(&[u8], usize) -> Result<Address>,
}

pub(super) const IPV4: Family = Family {
    size: 4,
    bad_type: " [igmpv3 report bad type]",
    read: |data, at| data.array_at(at).map(Address::V4),
};

pub(super) const IPV6: Family = Family {
    size: 16,
    bad_type: " [icmp6 report bad type]",
    read: |data, at| data.array_at(at).map(Address::V6),
};

/// Returns the time of a code, in units of the field (RFC 3376 section 4.1.1): from 128 on it is a
/// floating-point number.
pub(super) fn time(code: u8) -> u32 {
    let code = u32::from(code);
    if code < 128 {
        code
    } else {
        ((code & 15) | 16) << ((code >> 4 & 7) + 3)
    }
}

/// Prints the group records of a report of `length` bytes, which begin at its byte 8.
pub(super) fn records(cx: &mut Context<'_>, data: &[u8], length: usize, family: &Family) -> Result {
    const KINDS: [&str; 7] = [
        "", " is_in", " is_ex", " to_in", " to_ex", " allow", " block",
    ];
    let groups = data.u16_at(6)?;
    put!(cx.line, ", {groups} group record(s)");
    if !cx.verbose() {
        return Ok(());
    }
    let mut at = 8;
    for _ in 0..groups {
        if cx.line.is_full() {
            break;
        }
        let first = at + 4 + family.size;
        if first > length {
            cx.line.str(" [invalid number of groups]");
            break;
        }
        cx.line.str(" [gaddr ");
        cx.line.address((family.read)(data, at + 4)?);
        let kind = usize::from(data.u8_at(at)?);
        let sources = usize::from(data.u16_at(at + 2)?);
        cx.line
            .str(KINDS.get(kind).copied().unwrap_or(family.bad_type));
        let end = first + sources * family.size;
        if end > length {
            put!(cx.line, " [invalid number of sources {sources}]");
            break;
        }
        if cx.very_verbose() && sources > 0 {
            addresses(cx, data, first, sources, family)?;
        } else {
            put!(cx.line, ", {sources} source(s)");
        }
        cx.line.str("]");
        at = end;
    }
    Ok(())
}

/// Prints a list of addresses in braces.
pub(super) fn addresses(
    cx: &mut Context<'_>,
    data: &[u8],
    at: usize,
    count: usize,
    family: &Family,
) -> Result {
    cx.line.str(" {");
    for index in 0..count {
        cx.line.str(" ");
        cx.line
            .address((family.read)(data, at + index * family.size)?);
    }
    end!(cx.line, " }}")
}
