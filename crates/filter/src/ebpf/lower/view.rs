//! The program's view of the packet: the bytes as the kernel has them, or with the VLAN tag
//! inserted again that the kernel stores separately.

use crate::ebpf::Size;

/// The offset of the tag, where the bytes after it also begin.
pub(super) const TAG_START: u32 = 12;
pub(super) const TAG_END: u32 = 16;
pub(super) const TAG_BYTES: u32 = TAG_END - TAG_START;

/// The limit for reading packet bytes in place: both a constant offset and X fit the verifier's
/// limit of packet offsets (`MAX_PACKET_OFF`, 65535) and a load's 16-bit offset.
pub(super) const DIRECT_BOUND: u32 = 0x7fff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// The kernel's bytes, unchanged.
    Plain,
    /// With a tag of four bytes inserted at byte 12.
    Tagged,
}

/// The place of the bytes of a load at a constant offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadPlace {
    /// All in the packet, from this byte on.
    Packet(u32),
    /// Some or all in the tag.
    Mixed,
    /// Beyond any packet.
    Nowhere,
}

/// One byte of a mixed load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Byte {
    /// This byte of the packet.
    Packet(u32),
    /// This byte of the tag: 0 and 1 are its type, 2 and 3 its control information.
    Tag(u32),
}

impl View {
    pub(super) fn place(self, k: u32, size: Size) -> LoadPlace {
        let Some(end) = k.checked_add(size.bytes()).filter(|&end| end <= 1 << 31) else {
            return LoadPlace::Nowhere;
        };
        match self {
            Self::Plain => LoadPlace::Packet(k),
            Self::Tagged if end <= TAG_START => LoadPlace::Packet(k),
            Self::Tagged if k >= TAG_END => LoadPlace::Packet(k - TAG_BYTES),
            Self::Tagged => LoadPlace::Mixed,
        }
    }

    /// Returns the bytes of a mixed load, first to last.
    pub(super) fn bytes(self, k: u32, size: Size) -> impl Iterator<Item = Byte> {
        (k..k + size.bytes()).map(|at| match at {
            _ if at < TAG_START => Byte::Packet(at),
            _ if at < TAG_END => Byte::Tag(at - TAG_START),
            _ => Byte::Packet(at - TAG_BYTES),
        })
    }

    /// Returns how many bytes of the packet must be readable in place for the load at a constant
    /// offset; `None` if it cannot be read in place. A load from the tag requires a packet that
    /// reaches the tag.
    pub(super) fn extent(self, k: u32, size: Size) -> Option<u32> {
        let extent = match self.place(k, size) {
            LoadPlace::Packet(at) => at + size.bytes(),
            LoadPlace::Mixed => TAG_START.max((k + size.bytes()).saturating_sub(TAG_BYTES)),
            LoadPlace::Nowhere => return None,
        };
        (extent <= DIRECT_BOUND).then_some(extent)
    }

    /// Returns the offset of a load at X plus `k`, relative to byte X of the packet, and the lowest
    /// X for which it is valid. `None` if the load cannot be read in place.
    pub(super) fn indirect(self, k: u32, size: Size) -> Option<Indirect> {
        let (offset, least_x) = match self {
            Self::Plain => (k, 0),
            Self::Tagged => (k.checked_sub(TAG_BYTES)?, TAG_END.saturating_sub(k)),
        };
        let extent = offset.checked_add(size.bytes())?;
        (extent <= DIRECT_BOUND).then_some(Indirect {
            offset,
            extent,
            least_x,
        })
    }
}

/// A load in place at X plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indirect {
    /// The offset from byte X of the packet.
    pub(super) offset: u32,
    /// The number of bytes from byte X on that must be readable.
    pub(super) extent: u32,
    pub(super) least_x: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_tag_moves_what_follows() {
        let view = View::Tagged;
        assert_eq!(view.place(8, Size::W), LoadPlace::Packet(8));
        assert_eq!(view.place(9, Size::W), LoadPlace::Mixed);
        assert_eq!(view.place(15, Size::B), LoadPlace::Mixed);
        assert_eq!(view.place(16, Size::H), LoadPlace::Packet(12));
        let bytes: Vec<Byte> = view.bytes(14, Size::W).collect();
        let expected = [
            Byte::Tag(2),
            Byte::Tag(3),
            Byte::Packet(12),
            Byte::Packet(13),
        ];
        assert_eq!(bytes, expected);
        assert_eq!(view.extent(14, Size::W), Some(14));
        assert_eq!(view.extent(12, Size::H), Some(12));
    }

    #[test]
    fn offsets_beyond_any_packet_are_nowhere() {
        assert_eq!(View::Plain.place(u32::MAX, Size::B), LoadPlace::Nowhere);
        assert_eq!(View::Plain.place(u32::MAX - 4, Size::B), LoadPlace::Nowhere);
        assert_eq!(View::Plain.extent(0x7ffe, Size::H), None);
        assert_eq!(View::Plain.indirect(u32::MAX, Size::B), None);
    }
}
