//! The program lowered for a socket, in the plain interpreter, on the frame as a socket's filter
//! sees it: an outer VLAN tag is in the metadata instead of the bytes.

use ringtap_filter::program::{Ancillary, plain};
use ringtap_filter::socket::{Direction, Header, SocketView, lower};
use ringtap_filter::{Program, socket::NotLowerable};

use super::{Checked, asks_for_metadata};
use crate::packets::{Packet, is_whole};

/// The view of a capture on an Ethernet device without a snaplen.
pub(super) const VIEW: SocketView = SocketView {
    header: Header::Own,
    vlan: true,
    direction: Direction::Both,
    snaplen: u32::MAX,
};

pub(super) fn check(program: &Program, packets: &[Packet]) -> Result<Checked, String> {
    let lowered = match lower(program, &VIEW) {
        Ok(lowered) => lowered,
        Err(NotLowerable::TooLong(_) | NotLowerable::NoScratch | NotLowerable::Loop) => {
            return Ok(Checked::NotTaken);
        }
        Err(error) => return Err(error.to_string()),
    };
    if !lowered.fits_kernel() {
        return Err(format!("{} instructions", lowered.insns().len()));
    }
    if asks_for_metadata(program) {
        return Ok(Checked::Compared(0));
    }
    let mut compared = 0;
    for (data, len) in packets.iter().filter(|packet| is_whole(packet)) {
        let (seen, seen_len, ancillary) = stripped(data, *len);
        let (file, live) = (
            plain::run(program, data, *len, None),
            plain::run(&lowered, &seen, seen_len, Some(&ancillary)),
        );
        if (file > 0) != (live > 0) {
            return Err(format!("{live}, not {file}, on {data:02x?}"));
        }
        compared += 1;
    }
    Ok(Checked::Compared(compared))
}

/// Returns the frame as a socket's filter sees it.
fn stripped(frame: &[u8], len: u32) -> (Vec<u8>, u32, Ancillary) {
    let half = |at: usize| {
        frame
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let (Some(vlan_tpid @ (0x8100 | 0x88a8)), vlan_tci @ Some(_)) = (half(12), half(14)) else {
        return (frame.to_vec(), len, Ancillary::default());
    };
    let seen = [&frame[..12], &frame[16..]].concat();
    let ancillary = Ancillary {
        vlan_tci,
        vlan_tpid,
        ..Ancillary::default()
    };
    (seen, len - 4, ancillary)
}
