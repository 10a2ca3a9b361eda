//! sFlow (version 5, <https://sflow.org/sflow_version_5.txt>): the agent that sends samples.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Address, end, put};

const VERSION: u32 = 5;
const IPV4: u32 = 1;
const IPV6: u32 = 2;
/// The size of the header with an agent's address of either family, in bytes.
const HEADER_4: usize = 28;
const HEADER_6: usize = 40;

/// Prints a datagram of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("sflow");
    let (version, family) = (data.u32_at(0)?, data.u32_at(4)?);
    let needed = match family {
        IPV4 => HEADER_4,
        IPV6 => HEADER_6,
        _ => 0,
    };
    if length < needed {
        return end!(
            cx.line,
            "sFlowv{version} [length {length} < {HEADER_4}] (invalid)"
        );
    }
    if version != VERSION {
        return end!(cx.line, "sFlow version {version} packet not supported");
    }
    data.part(0, HEADER_4)?;
    let (name, address, agent) = if family == IPV4 {
        ("IPv4", Address::V4(data.array_at(8)?), data.u32_at(12)?)
    } else {
        ("IPv6", Address::V6(data.array_at(8)?), data.u32_at(24)?)
    };
    put!(cx.line, "sFlowv{version}, {name} agent {address}");
    end!(cx.line, ", agent-id {agent}, length {length}")
}
