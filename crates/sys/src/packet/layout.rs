//! Structures and constants shared with the kernel, from `linux/if_packet.h` and `linux/if_arp.h`.
//! Their sizes are checked at compile time.

use std::mem::{offset_of, size_of};

/// `TPACKET_V2` and `TPACKET_V3` of `enum tpacket_versions`.
pub(super) const TPACKET_V2: libc::c_int = 1;
pub(super) const TPACKET_V3: libc::c_int = 2;

/// Options of `SOL_PACKET`.
pub(super) mod option {
    pub(crate) const ADD_MEMBERSHIP: libc::c_int = 1;
    pub(crate) const RX_RING: libc::c_int = 5;
    pub(crate) const STATISTICS: libc::c_int = 6;
    pub(crate) const VERSION: libc::c_int = 10;
    pub(crate) const RESERVE: libc::c_int = 12;
    pub(crate) const TX_RING: libc::c_int = 13;
    pub(crate) const VNET_HDR: libc::c_int = 15;
    pub(crate) const TIMESTAMP: libc::c_int = 17;
    pub(crate) const FANOUT: libc::c_int = 18;
    pub(crate) const QDISC_BYPASS: libc::c_int = 20;
    pub(crate) const IGNORE_OUTGOING: libc::c_int = 23;
}

/// The address family of packet sockets, in the width of an address's field.
pub(super) const AF_PACKET: u16 = 17;
/// Every ethertype, in host byte order.
pub(super) const ETH_P_ALL: u16 = 3;

/// `PACKET_MR_PROMISC`.
pub(super) const MEMBERSHIP_PROMISCUOUS: u16 = 1;

/// The block belongs to the kernel.
pub(super) const STATUS_KERNEL: u32 = 0;
/// The block belongs to this process.
pub(super) const STATUS_USER: u32 = 1;
/// Packets were lost before this frame, since the statistics were last read.
pub(super) const STATUS_LOSING: u32 = 1 << 2;
/// An outgoing packet whose checksum the adapter has yet to compute.
pub(super) const STATUS_CHECKSUM_NOT_READY: u32 = 1 << 3;
/// `vlan_tci` holds a tag that the kernel removed from the frame.
pub(super) const STATUS_VLAN_VALID: u32 = 1 << 4;
/// `vlan_tpid` holds that tag's ethertype (Linux 3.14).
pub(super) const STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// `struct tpacket_block_desc` with `struct tpacket_hdr_v1` as its header.
#[repr(C)]
pub(super) struct BlockHeader {
    pub(super) version: u32,
    pub(super) offset_to_private: u32,
    pub(super) status: u32,
    pub(super) packets: u32,
    pub(super) first_packet: u32,
    pub(super) length: u32,
    pub(super) sequence: u64,
    pub(super) first_time: [u32; 2],
    pub(super) last_time: [u32; 2],
}

/// `struct tpacket3_hdr`, without its padding.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FrameHeader {
    pub(super) next: u32,
    pub(super) secs: u32,
    pub(super) nanos: u32,
    pub(super) caplen: u32,
    pub(super) len: u32,
    pub(super) status: u32,
    /// Offset of the link-layer header (of the payload for cooked sockets) from this structure.
    pub(super) mac: u16,
    pub(super) net: u16,
    pub(super) rxhash: u32,
    pub(super) vlan_tci: u32,
    pub(super) vlan_tpid: u16,
}

/// `struct tpacket2_hdr`, without its padding. The status is read as an atomic elsewhere.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SlotHeader {
    pub(super) status: std::mem::MaybeUninit<u32>,
    pub(super) len: u32,
    pub(super) caplen: u32,
    pub(super) mac: u16,
    pub(super) net: u16,
    pub(super) secs: u32,
    pub(super) nanos: u32,
    pub(super) vlan_tci: u16,
    pub(super) vlan_tpid: u16,
}

/// `struct sockaddr_ll`, which follows the frame's header.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct LinkAddress {
    pub(super) family: u16,
    /// Ethertype, in network byte order.
    pub(super) protocol: u16,
    pub(super) ifindex: i32,
    pub(super) hardware_type: u16,
    pub(super) packet_type: u8,
    pub(super) address_len: u8,
    pub(super) address: [u8; 8],
}

/// `struct tpacket_req3`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct RingRequest {
    pub(super) block_size: u32,
    pub(super) blocks: u32,
    pub(super) frame_size: u32,
    pub(super) frames: u32,
    /// Milliseconds.
    pub(super) retire_timeout: u32,
    pub(super) private_size: u32,
    pub(super) features: u32,
}

/// `struct tpacket_stats_v3`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct RingStatistics {
    /// Packets that passed the filter, including the dropped ones.
    pub(super) packets: u32,
    pub(super) drops: u32,
    pub(super) freezes: u32,
}

/// `struct packet_mreq`.
#[repr(C)]
pub(super) struct Membership {
    pub(super) ifindex: i32,
    pub(super) kind: u16,
    pub(super) address_len: u16,
    pub(super) address: [u8; 8],
}

/// Returns the size of a structure for the kernel, in the width that its calls take.
#[expect(
    clippy::cast_possible_truncation,
    reason = "asserted not to exceed a few bytes"
)]
pub(super) const fn len_of<T>() -> u32 {
    assert!(size_of::<T>() < 1024);
    size_of::<T>() as u32
}

/// Offset of the link address in a frame: `TPACKET_ALIGN(sizeof(struct tpacket3_hdr))`.
pub(super) const LINK_ADDRESS_OFFSET: u32 = 48;
/// Offset of the link address in a slot: `TPACKET_ALIGN(sizeof(struct tpacket2_hdr))`.
pub(super) const SLOT_ADDRESS_OFFSET: u32 = 32;
/// Bytes that the kernel writes before a frame's data and headroom: `TPACKET3_HDRLEN`.
pub(super) const FRAME_HEADER_LEN: u32 = LINK_ADDRESS_OFFSET + len_of::<LinkAddress>();
/// Bytes that the kernel writes at a block's start; frames follow.
pub(super) const BLOCK_HEADER_LEN: u32 = len_of::<BlockHeader>();
/// Frames begin at multiples of this.
pub(super) const FRAME_ALIGNMENT: u32 = 8;
/// The least room that the kernel leaves for a link-layer header, and its rounding
/// (`tpacket_rcv` in net/packet/af_packet.c).
pub(super) const MAC_ROOM: u32 = 16;

const _: () = {
    assert!(AF_PACKET as libc::c_int == libc::AF_PACKET);
    assert!(ETH_P_ALL as libc::c_int == libc::ETH_P_ALL);
    assert!(size_of::<BlockHeader>() == 48);
    assert!(offset_of!(BlockHeader, status) == 8);
    assert!(offset_of!(BlockHeader, sequence) == 24);
    assert!(size_of::<FrameHeader>() == 40);
    assert!(offset_of!(FrameHeader, mac) == 24);
    assert!(offset_of!(FrameHeader, vlan_tpid) == 36);
    assert!(size_of::<SlotHeader>() == 28);
    assert!(offset_of!(SlotHeader, mac) == 12);
    assert!(offset_of!(SlotHeader, vlan_tci) == 24);
    assert!(size_of::<LinkAddress>() == size_of::<libc::sockaddr_ll>());
    assert!(size_of::<RingRequest>() == 28);
    assert!(size_of::<Membership>() == 16);
};
