//! Wireless networks: frames of IEEE 802.11, with the adapter's radio header before them.

mod codes;
mod elements;
mod frame;
mod radiotap;

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use frame::Trailer;
pub(crate) use radiotap::print as radiotap;

/// Prints a frame without a radio header.
pub(crate) fn frame(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    frame::print(cx, data, length, Trailer::default())
}

/// Prints a frame after a header of Prism or AVS, which is skipped. Its first word identifies it; the second
/// word of an AVS header is its length.
pub(crate) fn prism(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    const PRISM: usize = 144;
    const AVS_VERSION: u32 = 0x8021_1000;
    cx.enter("prism");
    let first = data.u32_at(0)?;
    let size = if first & 0xffff_f000 == AVS_VERSION {
        cx.enter("802.11_radio_avs");
        usize::try_from(data.u32_at(4)?).unwrap_or(usize::MAX)
    } else {
        PRISM
    };
    data.part(0, size)?;
    cx.header += size;
    frame(cx, data.rest(size), length.saturating_sub(size))
}
