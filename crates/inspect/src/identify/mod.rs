//! The protocol of a flow by one of its first payloads.

mod tcp;
mod text;
mod udp;

pub(crate) use tcp::{SHORTEST_DNS, mqtt_name};

use crate::guess::Guesses;
use crate::payload::{Payload, Transport};
use crate::protocol::Protocol;

/// Returns the protocol that a payload has, if its bytes say so.
pub(crate) fn protocol(
    payload: &Payload<'_>,
    guesses: &mut Guesses,
    flow: u32,
) -> Option<Protocol> {
    match payload.transport {
        Transport::Tcp { .. } => tcp::protocol(payload),
        Transport::Udp => udp::protocol(payload, guesses, flow),
    }
}
