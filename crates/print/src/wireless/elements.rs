//! The elements in the body of a management frame (IEEE 802.11-2020 section 9.4.2): network, rates, channel.

use super::radiotap::half;
use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::put;

const NETWORK: u8 = 0;
const RATES: u8 = 1;
const CHANNEL: u8 = 3;
const CHALLENGE: u8 = 16;

const MAX_NETWORK: usize = 32;
const MAX_RATES: usize = 16;
/// The most bytes of a challenge with the element's header.
const MAX_CHALLENGE: usize = 253;
/// The bit of a rate that a station must support.
const BASIC: u8 = 0x80;

/// The elements that a line shows; the first of each kind counts.
#[derive(Default)]
pub(super) struct Elements<'a> {
    network: Option<&'a [u8]>,
    rates: Option<&'a [u8]>,
    channel: Option<u8>,
    /// Whether an element is too long or incomplete.
    damaged: bool,
}

impl<'a> Elements<'a> {
    pub(super) fn of(mut body: &'a [u8]) -> Self {
        let mut found = Self::default();
        while let [kind, rest @ ..] = body {
            let (Ok(size), kind) = (rest.u8_at(0).map(usize::from), *kind) else {
                found.damaged = true;
                break;
            };
            let value = rest.part(1, size);
            let longest = match kind {
                NETWORK => MAX_NETWORK,
                RATES => MAX_RATES,
                CHALLENGE => MAX_CHALLENGE,
                _ => usize::MAX,
            };
            let Some(value) = value.ok().filter(|value| value.len() <= longest) else {
                found.damaged = true;
                break;
            };
            match (kind, value) {
                (NETWORK, _) => found.network = found.network.or(Some(value)),
                (RATES, [_, ..]) => found.rates = found.rates.or(Some(value)),
                (CHANNEL, &[channel]) => found.channel = found.channel.or(Some(channel)),
                _ => {}
            }
            body = rest.rest(1 + size);
        }
        found
    }

    /// Returns an error if an element is damaged.
    pub(super) fn check(&self) -> Result {
        if self.damaged { Err(Truncated) } else { Ok(()) }
    }

    /// Prints ` (name)`.
    pub(super) fn print_network(&self, cx: &mut Context<'_>) {
        if let Some(name) = self.network {
            cx.line.str(" (");
            cx.line.escaped_string(name);
            cx.line.str(")");
        }
    }

    /// Prints ` [1.0* 2.0 Mbit]`.
    pub(super) fn print_rates(&self, cx: &mut Context<'_>) {
        let Some(rates) = self.rates else {
            return;
        };
        cx.line.str(" [");
        for &rate in rates {
            half(cx, rate & !BASIC);
            cx.line.str(if rate & BASIC != 0 { "* " } else { " " });
        }
        cx.line.str("Mbit]");
    }

    /// Prints ` CH: 6, PRIVACY`.
    pub(super) fn print_channel(&self, cx: &mut Context<'_>, private: bool) {
        if let Some(channel) = self.channel {
            put!(cx.line, " CH: {channel}");
        }
        if private {
            cx.line.str(", PRIVACY");
        }
    }
}
