//! DHCPv6 (RFC 8415 section 7.3): the message's type.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Named, end};

/// The types from 1 on; 14 and 15 are those of RFC 5007.
const TYPES: [&str; 15] = [
    "solicit",
    "advertise",
    "request",
    "confirm",
    "renew",
    "rebind",
    "reply",
    "release",
    "decline",
    "reconfigure",
    "inf-req",
    "relay-fwd",
    "relay-reply",
    "leasequery",
    "leasequery-reply",
];

/// Prints a message.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8]) -> Result {
    cx.enter("dhcp6");
    cx.line.str("dhcp6");
    let [kind, ..] = data.array_at::<4>(0)?;
    let name = TYPES.get(usize::from(kind).wrapping_sub(1)).copied();
    end!(cx.line, " {}", Named(name, format_args!("msgtype-{kind}")))
}
