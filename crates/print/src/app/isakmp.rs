//! ISAKMP: IKEv1 (RFC 2408 section 3.1) and IKEv2 (RFC 7296 section 3.1), and both with ESP over UDP (RFC 3948).
//!
//! Only the header is printed: phase, side, exchange, flags. The side of an IKEv1 message is known
//! only after the exchange's first message, in which the responder's cookie is zero.

use crate::bytes::{Bytes, Result};
use crate::context::{Context, Network};
use crate::ip::security;
use crate::line::{Address, end, name_in};

const HEADER: usize = 28;
/// RFC 3948 section 2.2: no ESP follows.
const NO_ESP: [u8; 4] = [0; 4];
const KEEP_ALIVE: u8 = 0xff;
/// The most initiators that are remembered; the oldest is forgotten first.
const REMEMBERED: usize = 20;

const EXCHANGES: [(u8, &str); 12] = [
    (0, "none"),
    (1, "base"),
    (2, "ident"),
    (3, "auth"),
    (4, "agg"),
    (5, "inf"),
    (32, "oakley-quick"),
    (33, "oakley-newgroup"),
    (34, "ikev2_init"),
    (35, "ikev2_auth"),
    (36, "child_sa"),
    (37, "inf2"),
];

/// Bits of the header's flags with their letters.
const FLAGS_V1: [(u8, &str); 2] = [(0x01, "E"), (0x02, "C")];
const FLAGS_V2: [(u8, &str); 3] = [(0x08, "I"), (0x10, "V"), (0x20, "R")];

/// The initiators of recent exchanges.
#[derive(Debug, Default)]
pub(crate) struct Initiators {
    entries: [Option<Initiator>; REMEMBERED],
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Initiator {
    cookie: [u8; 8],
    initiator: Address,
    responder: Address,
}

impl Initiators {
    fn remember(&mut self, entry: Initiator) {
        let known = |known: &Initiator| known.cookie == entry.cookie;
        if !self.entries.iter().flatten().any(known) {
            self.entries[self.next] = Some(entry);
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    /// Returns `I` or `R` for the side of `source`, `?` if the start of the exchange is unknown.
    fn side(&self, cookie: [u8; 8], source: Address) -> &'static str {
        let found = self
            .entries
            .iter()
            .flatten()
            .find(|entry| entry.cookie == cookie);
        match found {
            Some(entry) if entry.initiator == source => "I",
            Some(entry) if entry.responder == source => "R",
            _ => "?",
        }
    }
}

/// Prints a datagram of port 4500: a key exchange, ESP, or a NAT keepalive.
pub(super) fn encapsulated(
    cx: &mut Context<'_>,
    net: &Network,
    data: &[u8],
    length: usize,
) -> Result {
    cx.enter("isakmp_rfc3948");
    if length == 1 && data.u8_at(0)? == KEEP_ALIVE {
        return end!(cx.line, "isakmp-nat-keep-alive");
    }
    if data.array_at::<4>(0)? == NO_ESP {
        cx.line.str("NONESP-encap: ");
        return print(cx, net, data.rest(4));
    }
    cx.line.str("UDP-encap: ");
    security::payload(cx, data, length)
}

/// Prints a message.
pub(super) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8]) -> Result {
    cx.enter("isakmp");
    data.part(0, HEADER)?;
    let (initiator, responder): ([u8; 8], [u8; 8]) = (data.array_at(0)?, data.array_at(8)?);
    let (version, exchange, flags) = (data.u8_at(17)?, data.u8_at(18)?, data.u8_at(19)?);
    let first_phase = data.u32_at(20)? == 0;
    cx.line.str("isakmp:");
    match version >> 4 {
        1 => {
            cx.line.str(if first_phase {
                " phase 1 "
            } else {
                " phase 2/others "
            });
            if responder == [0; 8] && initiator != [0; 8] {
                cx.initiators.remember(Initiator {
                    cookie: initiator,
                    initiator: net.source,
                    responder: net.shown_destination,
                });
            }
            cx.line.str(cx.initiators.side(initiator, net.source));
            cx.line.str(" ");
            exchange_and_flags(cx, exchange, flags, &FLAGS_V1);
        }
        2 => {
            cx.line.str(if first_phase {
                " parent_sa "
            } else {
                " child_sa  "
            });
            exchange_and_flags(cx, exchange, flags, &FLAGS_V2);
        }
        _ => {}
    }
    Ok(())
}

/// Prints the name of an exchange, and letters in brackets if a bit is set.
fn exchange_and_flags(cx: &mut Context<'_>, exchange: u8, flags: u8, letters: &[(u8, &str)]) {
    let name = name_in(&EXCHANGES, exchange);
    cx.line.name(name, format_args!("#{exchange}"));
    if flags != 0 {
        cx.line.str("[");
        cx.line.marks(flags, letters);
        cx.line.str("]");
    }
}
