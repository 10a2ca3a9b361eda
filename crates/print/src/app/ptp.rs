//! The Precision Time Protocol, version 2 (IEEE 1588-2008 clause 13), over UDP and in Ethernet frames.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Flags, end, put};

const HEADER: usize = 34;

const SYNC: u8 = 0;
const DELAY_REQUEST: u8 = 1;
const PEER_DELAY_REQUEST: u8 = 2;
const PEER_DELAY_RESPONSE: u8 = 3;
const FOLLOW_UP: u8 = 8;
const DELAY_RESPONSE: u8 = 9;
const PEER_DELAY_FOLLOW_UP: u8 = 10;
const ANNOUNCE: u8 = 11;
const SIGNALLING: u8 = 12;
const MANAGEMENT: u8 = 13;

const KINDS: [&str; 16] = [
    "sync msg",
    "delay req msg",
    "peer delay req msg",
    "peer delay resp msg",
    "Reserved",
    "Reserved",
    "Reserved",
    "Reserved",
    "follow up msg",
    "delay resp msg",
    "pdelay resp fup msg",
    "announce msg",
    "signalling msg",
    "management msg",
    "Reserved",
    "Reserved",
];
const FLAGS: [(u32, &str); 12] = [
    (0x0001, "l1 61"),
    (0x0002, "l1 59"),
    (0x0004, "utc reasonable"),
    (0x0008, "timescale"),
    (0x0010, "time tracable"),
    (0x0020, "frequency tracable"),
    (0x0100, "alternate master"),
    (0x0200, "two step"),
    (0x0400, "unicast"),
    (0x1000, "profile specific 1"),
    (0x2000, "profile specific 2"),
    (0x4000, "security mask"),
];
const CONTROLS: [&str; 6] = [
    "Sync",
    "Delay_Req",
    "Follow_Up",
    "Delay_Resp",
    "Management",
    "Other",
];

/// Prints a message of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("ptp");
    if length < HEADER {
        return end!(cx.line, " [length {length} < {HEADER}] (invalid)");
    }
    let (first, version) = (data.u8_at(0)?, data.u8_at(1)?);
    put!(cx.line, "PTPv{version}");
    match version {
        1 => cx.line.str(" (not implemented)"),
        2 => version_2(cx, data, first)?,
        _ => {}
    }
    Ok(())
}

fn version_2(cx: &mut Context<'_>, data: &[u8], first: u8) -> Result {
    let kind = first & 0x0f;
    let compatible = if first & 0x10 == 0 { "no" } else { "yes" };
    put!(cx.line, ", v1 compat : {compatible}");
    put!(cx.line, ", msg type : {}", KINDS[usize::from(kind)]);
    put!(cx.line, ", length : {}", data.u16_at(2)?);
    put!(cx.line, ", domain : {}", data.u8_at(4)?);
    put!(cx.line, ", reserved1 : {}", data.u8_at(5)?);
    let flags = data.u16_at(6)?;
    put!(cx.line, ", Flags [{}]", Flags(u32::from(flags), &FLAGS));
    // Nanoseconds, and 65536ths of them.
    put!(cx.line, ", NS correction : {}", data.u48_at(8)?);
    put!(cx.line, ", sub NS correction : {}", data.u16_at(14)?);
    put!(cx.line, ", reserved2 : {}", data.u32_at(16)?);
    put!(cx.line, ", clock identity : 0x{:x}", data.u64_at(20)?);
    put!(cx.line, ", port id : {}", data.u16_at(28)?);
    put!(cx.line, ", seq id : {}", data.u16_at(30)?);
    let control = data.u8_at(32)?;
    let name = CONTROLS.get(usize::from(control)).unwrap_or(&"Reserved");
    put!(cx.line, ", control : {control} ({name})");
    put!(cx.line, ", log message interval : {}", data.u8_at(33)?);
    let body = data.rest(HEADER);
    match kind {
        SYNC | DELAY_REQUEST => time(cx, body, "originTimeStamp", ",")?,
        DELAY_RESPONSE | PEER_DELAY_RESPONSE => {
            time(cx, body, "receiveTimeStamp", ",")?;
            port(cx, body, 10)?;
        }
        FOLLOW_UP => time(cx, body, "preciseOriginTimeStamp", ",")?,
        PEER_DELAY_REQUEST | PEER_DELAY_FOLLOW_UP => {
            time(cx, body, "preciseOriginTimeStamp", ",")?;
            port(cx, body, 10)?;
        }
        ANNOUNCE => announce(cx, body)?,
        SIGNALLING | MANAGEMENT => port(cx, body, 0)?,
        _ => {}
    }
    Ok(())
}

fn time(cx: &mut Context<'_>, body: &[u8], name: &str, comma: &str) -> Result {
    put!(cx.line, ", {name} :");
    put!(cx.line, " {} seconds{comma}", body.u48_at(0)?);
    end!(cx.line, " {} nanoseconds", body.u32_at(6)?)
}

fn port(cx: &mut Context<'_>, body: &[u8], at: usize) -> Result {
    put!(cx.line, ", port identity : 0x{:x}", body.u64_at(at)?);
    end!(cx.line, ", port id : {}", body.u16_at(at + 8)?)
}

/// Prints the clock at the root of the tree.
fn announce(cx: &mut Context<'_>, body: &[u8]) -> Result {
    time(cx, body, "originTimeStamp", "")?;
    put!(cx.line, ", origin cur utc :{}", body.u16_at(10)?);
    put!(cx.line, ", rsvd : {}", body.u8_at(12)?);
    put!(cx.line, ", gm priority_1 : {}", body.u8_at(13)?);
    put!(cx.line, ", gm clock class : {}", body.u8_at(14)?);
    put!(cx.line, ", gm clock accuracy : {}", body.u8_at(15)?);
    put!(cx.line, ", gm clock variance : {}", body.u16_at(16)?);
    put!(cx.line, ", gm priority_2 : {}", body.u8_at(18)?);
    put!(cx.line, ", gm clock id : 0x{:x}", body.u64_at(19)?);
    put!(cx.line, ", steps removed : {}", body.u16_at(27)?);
    end!(cx.line, ", time source : 0x{:02x}", body.u8_at(29)?)
}
