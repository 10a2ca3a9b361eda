//! Frame Relay (ITU-T Q.922, RFC 2427): the packet after its network layer identifier, fragments (FRF.12,
//! FRF.15), and bundles of links (FRF.16, RFC 3020).

use super::llc;
use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::ip;
use crate::line::{Flags, end, put};
use crate::routing::osi;

const UNNUMBERED_INFORMATION: u8 = 0x03;
const PADDING: u8 = 0;
const Q933: u8 = 0x08;
const SNAP: u8 = 0x80;
const FRAGMENT: u8 = 0xb1;
/// The bit in a byte of the address that marks its end.
const LAST: u8 = 0x01;
const MAX_ADDRESS: usize = 4;

const FLAGS: [(u32, &str); 5] = [
    (0x02_00, "C!"),
    (0x00_02, "DE"),
    (0x00_04, "BECN"),
    (0x00_08, "FECN"),
    (SDL_CORE, "sdlcore"),
];
const SDL_CORE: u32 = 0x01_0000;

/// The address of a frame.
struct Address {
    size: usize,
    circuit: u32,
    flags: u32,
}

impl Address {
    /// Reads the address at the start of a frame; `None` if it is invalid.
    fn of(data: &[u8]) -> Option<Self> {
        let size = 1 + data
            .up_to(MAX_ADDRESS)
            .iter()
            .position(|byte| byte & LAST != 0)?;
        let byte = |at| data.u8_at(at).map_or(0, u32::from);
        // Q.922 section 3.3: six bits, four, then seven in an address of four bytes, six in the
        // last byte.
        let mut circuit = (byte(0) & 0xfc) << 2 | byte(1) >> 4;
        let mut flags = (byte(0) & 0x02) << 8 | byte(1) & 0x0e;
        match size {
            2 => {}
            3 => {
                circuit = circuit << 6 | byte(2) >> 2;
                flags |= (byte(2) & 0x02) << 15;
            }
            4 => {
                circuit = circuit << 13 | (byte(2) & 0xfe) << 5 | byte(3) >> 2;
                flags |= (byte(3) & 0x02) << 15;
            }
            _ => return None,
        }
        Some(Self {
            size,
            circuit,
            flags,
        })
    }

    /// Writes the header of a frame of `length` bytes; `identifier` is that of the network layer.
    fn print(&self, cx: &mut Context<'_>, identifier: u16, length: usize) {
        if cx.options.quiet {
            put!(cx.line, "Q.922, DLCI {}, length {length}: ", self.circuit);
            return;
        }
        put!(
            cx.line,
            "Q.922, hdr-len {}, DLCI {}, Flags [{}]",
            self.size,
            self.circuit,
            Flags(self.flags, &FLAGS)
        );
        match u8::try_from(identifier) {
            Ok(identifier) => {
                let name = osi::name(identifier).unwrap_or("unknown");
                put!(cx.line, ", NLPID {name} (0x{identifier:02x})");
            }
            Err(_) => {
                let name = super::ether_type_known(identifier).unwrap_or("unknown");
                put!(cx.line, ", cisco-ethertype {name} (0x{identifier:04x})");
            }
        }
        put!(cx.line, ", length {length}: ");
    }
}

/// Prints a frame that had `length` bytes on the wire.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("fr");
    data.part(0, MAX_ADDRESS)?;
    frame(cx, data, length)
}

fn frame(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    let start = cx.header;
    let Some(address) = Address::of(data) else {
        return end!(cx.line, "Q.922, invalid address");
    };
    let mut at = address.size;
    let control = data.u8_at(at)?;
    cx.header = start + at + 1;
    // Circuit 0 carries the messages of Q.933.
    if control != UNNUMBERED_INFORMATION && address.circuit != 0 {
        if cisco(cx, &address, data, length)? {
            return Ok(());
        }
        put!(cx.line, "UI {control:02x}! ");
        cx.enter("fr");
    }
    at += 1;
    if data.u8_at(at)? == PADDING {
        // It aligns the rest to an even offset, unless the address has done so.
        if address.size != 3 {
            cx.line.str("Pad! ");
        }
        at += 1;
    } else if address.size == 3 {
        cx.line.str("No pad! ");
    }
    let identifier = data.u8_at(at)?;
    cx.header = start + at + 1;
    if cx.options.link_header {
        address.print(cx, identifier.into(), length);
    }
    carried(cx, &address, (data, at), length)
}

/// Prints the payload of an Ethernet type in place of the control field, as Cisco's routers send
/// it; returns false if the type is unknown here.
fn cisco(cx: &mut Context<'_>, address: &Address, data: &[u8], length: usize) -> Result<bool> {
    let at = address.size + 2;
    let Ok(kind) = data.u16_at(address.size) else {
        return Ok(false);
    };
    cx.header += 1;
    if cx.options.link_header {
        address.print(cx, kind, length);
    }
    super::network(cx, kind, data.rest(at), length.saturating_sub(at))
}

/// Prints the protocol of the identifier at an offset of the frame.
fn carried(
    cx: &mut Context<'_>,
    address: &Address,
    (data, at): (&[u8], usize),
    length: usize,
) -> Result {
    let identifier = data.u8_at(at)?;
    let (inner, rest) = (data.rest(at + 1), length.saturating_sub(at + 1));
    match identifier {
        osi::IPV4 => ip::v4::announced(cx, inner, rest, cx.options.link_header),
        osi::IPV6 => super::network(cx, super::IPV6, inner, rest).map(|_| ()),
        osi::CLNP | osi::ES_IS | osi::IS_IS => osi::print(cx, data.rest(at), rest + 1),
        SNAP => snap(cx, data, at, rest),
        Q933 => super::q933::print(cx, inner, rest),
        FRAGMENT => fragment(cx, inner, rest),
        osi::PPP => super::nested_ppp(cx, inner, rest),
        _ => {
            if !cx.options.link_header {
                address.print(cx, identifier.into(), length);
            }
            if inner.is_empty() && rest > 0 {
                return Err(Truncated);
            }
            Ok(())
        }
    }
}

/// Prints the payload of the SNAP header after the identifier, in `length` bytes.
fn snap(cx: &mut Context<'_>, data: &[u8], at: usize, length: usize) -> Result {
    const HEADER: usize = 5;
    /// RFC 2427 section 4.3: an Ethernet frame with its checksum, or without.
    const BRIDGED: [[u8; HEADER]; 2] = [[0, 0x80, 0xc2, 0, 1], [0, 0x80, 0xc2, 0, 7]];
    let frame = data.rest(at + 1);
    if !cx.options.link_header && frame.first_chunk().is_some_and(|id| BRIDGED.contains(id)) {
        cx.header += HEADER;
        let (frame, length) = (frame.rest(HEADER), length.saturating_sub(HEADER));
        return ip::nested(cx, |cx| super::nested_ethernet(cx, frame, length));
    }
    // The header begins three bytes into the data that the LLC reader expects.
    llc::snap(cx, data.rest(at - 2), length + 3, None)
}

const BEGIN: u32 = 0x80;
const CONTROL: u32 = 0x20;
const FRAGMENT_FLAGS: [(u32, &str); 3] = [(BEGIN, "Begin"), (0x40, "End"), (CONTROL, "Control")];
/// The fragment belongs to the interface, not to a circuit.
const INTERFACE: u8 = 0x01;

/// Prints a fragment.
fn fragment(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    let first = data.u8_at(0)?;
    fragment_header(cx, "FRF.15, seq 0x", data, true)?;
    let scope = match first & INTERFACE {
        0 => "End-to-End",
        _ => "Interface",
    };
    end!(cx.line, ",{scope} Fragmentation, length {length}")
}

fn fragment_header(cx: &mut Context<'_>, begin: &str, data: &[u8], hexadecimal: bool) -> Result {
    let field = data.u16_at(0)?;
    let sequence = field >> 1 & 0xf00 | field & 0xff;
    cx.line.str(begin);
    if hexadecimal {
        put!(cx.line, "{sequence:03x}");
    } else {
        put!(cx.line, "{sequence}");
    }
    let flags = Flags(u32::from(field >> 8), &FRAGMENT_FLAGS);
    end!(cx.line, ", Flags [{flags}]")
}

const BUNDLE_MESSAGES: [&str; 7] = [
    "Add Link",
    "Add Link ACK",
    "Add Link Reject",
    "Hello",
    "Hello ACK",
    "Remove Link",
    "Remove Link ACK",
];

/// Prints a frame of a bundle of links that had `length` bytes on the wire: the fragment of a
/// frame, or a control message of a link's ends.
pub(super) fn bundle(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    const HEADER: usize = 4;
    const CONTROL_FRAME: u32 = 0xe0;
    const FRAGMENT_HEADER: usize = 2;
    cx.enter("mfr");
    if length < HEADER {
        return end!(cx.line, "[length {length} < {HEADER}] (invalid)");
    }
    data.part(0, HEADER)?;
    let first = u32::from(data.u8_at(0)?);
    if first & CONTROL_FRAME == CONTROL_FRAME && data.u8_at(1)? == 0 {
        let message = data.u8_at(2)?;
        let flags = Flags(first, &FRAGMENT_FLAGS);
        put!(cx.line, "FRF.16 Control, Flags [{flags}], ");
        let name = BUNDLE_MESSAGES
            .get(usize::from(message).wrapping_sub(1))
            .copied();
        cx.line
            .name(name, format_args!("Unknown Message (0x{message:02x})"));
        return end!(cx.line, ", length {length}");
    }
    fragment_header(cx, "FRF.16 Frag, seq ", data, false)?;
    cx.header += FRAGMENT_HEADER;
    if first & (BEGIN | CONTROL) != BEGIN {
        return Ok(());
    }
    // The first fragment has the header of the frame.
    cx.line.str(", ");
    cx.enter("fr");
    frame(cx, data.rest(FRAGMENT_HEADER), length - FRAGMENT_HEADER)
}
