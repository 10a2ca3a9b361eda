//! The common parts of reports about multicast groups: IGMP version 3 (RFC 3376) and MLD version 2
//! (RFC 3810).

use super::bytes::{Bytes, Result};
use super::context::Context;
use super::line::{end, put};

/// The parts that depend on the address family.
pub(super) struct Family {
    /// The size of an address in bytes.
    size: usize,
    bad_type: &'static str,
    print: fn(&mut Context<'_>, &[u8], usize) -> Result,
}

pub(super) const IPV4: Family = Family {
    size: 4,
    bad_type: " [igmpv3 report bad type]",
    print: |cx, data, at| {
        cx.line.ipv4(data.array_at(at)?);
        Ok(())
    },
};

pub(super) const IPV6: Family = Family {
    size: 16,
    bad_type: " [icmp6 report bad type]",
    print: |cx, data, at| {
        cx.line.ipv6(data.array_at(at)?);
        Ok(())
    },
};

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
        (family.print)(cx, data, at + 4)?;
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
        (family.print)(cx, data, at + index * family.size)?;
    }
    end!(cx.line, " }}")
}
