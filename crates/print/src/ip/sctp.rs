//! SCTP (RFC 9260): the chunks by name, with their main fields.

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::{Context, Network};
use crate::line::{end, put};

const HEADER: usize = 12;
const CHUNK_HEADER: usize = 4;
/// The most chunks printed of one packet.
const MAX_CHUNKS: usize = 64;

/// The size of a chunk before its data, in bytes.
const DATA_HEADER: usize = 16;

/// The ports of ForCES by priority (RFC 5811 section 4.2.1).
const FORCES: [(u16, &str); 3] = [
    (6704, "ForCES HP"),
    (6705, "ForCES MP"),
    (6706, "ForCES LP"),
];

const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SACK: u8 = 3;

/// Prints a packet and its chunks.
pub(super) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    cx.enter("sctp");
    if length < HEADER {
        if net.endpoints {
            net.addresses(cx.line);
        }
        return Err(Truncated);
    }
    net.ports(cx.line, data.u16_at(0)?, data.u16_at(2)?);
    cx.line.str("sctp");
    let ports = [data.u16_at(0)?, data.u16_at(2)?];
    let forces = ports.map(|port| FORCES.iter().find(|(number, _)| *number == port));
    for (_, name) in forces.iter().flatten() {
        put!(cx.line, "[{name}]");
    }
    let mut at = HEADER;
    for index in 1..=MAX_CHUNKS {
        if at + CHUNK_HEADER > length || cx.line.is_full() {
            break;
        }
        let (kind, flags) = (data.u8_at(at)?, data.u8_at(at + 1)?);
        let stated = usize::from(data.u16_at(at + 2)?);
        match (cx.very_verbose(), index) {
            (true, _) => put!(cx.line, "\n\t{index}) "),
            (false, 1) => cx.line.str(" (1) "),
            (false, _) => put!(cx.line, ", ({index}) "),
        }
        name(cx, kind);
        if stated < CHUNK_HEADER {
            return end!(cx.line, " [chunk length {stated} < 4] (invalid)");
        }
        chunk(cx, kind, flags, data.rest(at), stated)?;
        if kind == DATA && forces.iter().flatten().next().is_some() {
            forces_message(cx, data.rest(at + DATA_HEADER))?;
        }
        at += stated.next_multiple_of(4);
    }
    Ok(())
}

fn name(cx: &mut Context<'_>, kind: u8) {
    let name = match kind {
        DATA => "DATA",
        INIT => "INIT",
        INIT_ACK => "INIT ACK",
        SACK => "SACK",
        4 => "HB REQ",
        5 => "HB ACK",
        6 => "ABORT",
        7 => "SHUTDOWN",
        8 => "SHUTDOWN ACK",
        9 => "OP ERR",
        10 => "COOKIE ECHO",
        11 => "COOKIE ACK",
        12 => "ECN ECHO",
        13 => "CWR",
        14 => "SHUTDOWN COMPLETE",
        15 => "AUTH",
        0xc1 => "ASCONF",
        0x80 => "ASCONF-ACK",
        _ => {
            put!(cx.line, "[Unknown chunk type: 0x{kind:x}]");
            return;
        }
    };
    put!(cx.line, "[{name}] ");
}

/// Prints the kind of a ForCES message (RFC 5810 section 6.1), on a line of its own.
fn forces_message(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let name = match data.u8_at(1)? {
        0x01 => "Association Setup",
        0x02 => "Association TearDown",
        0x03 => "Config",
        0x04 => "Query",
        0x05 => "Event Notification",
        0x06 => "Packet Redirect",
        0x0f => "HeartBeat",
        0x11 => "Association Response",
        0x13 => "Config Response",
        0x14 => "Query Response",
        _ => return Ok(()),
    };
    end!(cx.line, "\n\tForCES {name} ")
}

fn chunk(cx: &mut Context<'_>, kind: u8, flags: u8, data: &[u8], stated: usize) -> Result {
    match kind {
        DATA => {
            for (bit, mark) in [(4, "(U)"), (2, "(B)"), (1, "(E)")] {
                if flags & bit != 0 {
                    cx.line.str(mark);
                }
            }
            if flags & 7 != 0 {
                cx.line.str(" ");
            }
            put!(
                cx.line,
                "[TSN: {}] [SID: {}] [SSEQ {}] [PPID 0x{:x}] ",
                data.u32_at(4)?,
                data.u16_at(8)?,
                data.u16_at(10)?,
                data.u32_at(12)?
            );
        }
        INIT | INIT_ACK => put!(
            cx.line,
            "[init tag: {}] [rwnd: {}] [OS: {}] [MIS: {}] [init TSN: {}] ",
            data.u32_at(4)?,
            data.u32_at(8)?,
            data.u16_at(12)?,
            data.u16_at(14)?,
            data.u32_at(16)?
        ),
        SACK => put!(
            cx.line,
            "[cum ack {}] [a_rwnd {}] [#gap acks {}] [#dup tsns {}] ",
            data.u32_at(4)?,
            data.u32_at(8)?,
            data.u16_at(12)?,
            data.u16_at(14)?
        ),
        _ => {
            data.part(0, stated)?;
        }
    }
    Ok(())
}
