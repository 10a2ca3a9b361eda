//! The types of blocks.

pub(crate) const INTERFACE: u32 = 1;
pub(crate) const PACKET: u32 = 2;
pub(crate) const SIMPLE_PACKET: u32 = 3;
pub(crate) const NAMES: u32 = 4;
pub(crate) const STATISTICS: u32 = 5;
pub(crate) const ENHANCED_PACKET: u32 = 6;
pub(crate) const SECRETS: u32 = 10;
pub(crate) const CUSTOM: u32 = 0x0bad;
pub(crate) const CUSTOM_NO_COPY: u32 = 0x4000_0bad;
pub(crate) const SECTION: u32 = 0x0a0d_0d0a;

/// Returns the name of a block of that type.
pub(crate) fn block_name(number: u32) -> Option<&'static str> {
    Some(match number {
        INTERFACE => "interface description block",
        PACKET => "obsolete packet block",
        SIMPLE_PACKET => "simple packet block",
        NAMES => "name resolution block",
        STATISTICS => "interface statistics block",
        ENHANCED_PACKET => "enhanced packet block",
        SECRETS => "decryption secrets block",
        CUSTOM | CUSTOM_NO_COPY => "custom block",
        SECTION => "section header block",
        _ => return None,
    })
}
