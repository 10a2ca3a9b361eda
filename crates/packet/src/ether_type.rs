//! Ethernet types: the protocol numbers of frames (IANA, IEEE 802 numbers).

/// IPv4.
pub const IPV4: u16 = 0x0800;
/// ARP.
pub const ARP: u16 = 0x0806;
/// DECnet phase IV.
pub const DECNET: u16 = 0x6003;
/// DEC LAT.
pub const LAT: u16 = 0x6004;
/// DEC MOP, dump and load.
pub const MOP_DUMP_LOAD: u16 = 0x6001;
/// DEC MOP, remote console.
pub const MOP_CONSOLE: u16 = 0x6002;
/// DEC SCA.
pub const SCA: u16 = 0x6007;
/// An Ethernet frame in a tunnel (RFC 1701: transparent bridging).
pub const BRIDGED: u16 = 0x6558;
/// Reverse ARP.
pub const REVERSE_ARP: u16 = 0x8035;
/// AppleTalk.
pub const APPLETALK: u16 = 0x809b;
/// AppleTalk ARP.
pub const APPLETALK_ARP: u16 = 0x80f3;
/// A VLAN tag (IEEE 802.1Q).
pub const VLAN: u16 = 0x8100;
/// IPX.
pub const IPX: u16 = 0x8137;
/// IPv6.
pub const IPV6: u16 = 0x86dd;
/// PPP.
pub const PPP: u16 = 0x880b;
/// MPLS labels.
pub const MPLS: u16 = 0x8847;
/// MPLS labels of multicast packets, or labels that upstream assigned.
pub const MPLS_MULTICAST: u16 = 0x8848;
/// PPPoE, discovery stage.
pub const PPPOE_DISCOVERY: u16 = 0x8863;
/// PPPoE, session stage.
pub const PPPOE_SESSION: u16 = 0x8864;
/// Frames that are too long for a length field.
pub const JUMBO: u16 = 0x8870;
/// Authentication on a port (IEEE 802.1X).
pub const EAPOL: u16 = 0x888e;
/// The tag of a service provider (IEEE 802.1ad).
pub const QINQ: u16 = 0x88a8;
/// LLDP.
pub const LLDP: u16 = 0x88cc;
/// MACsec (IEEE 802.1AE).
pub const MACSEC: u16 = 0x88e5;
/// A backbone's frame around a customer's (IEEE 802.1ah).
pub const BACKBONE: u16 = 0x88e7;
/// A network service header (RFC 8300).
pub const NETWORK_SERVICE: u16 = 0x894f;
/// Ethernet's configuration testing protocol.
pub const LOOPBACK: u16 = 0x9000;
/// The tag of a service provider before IEEE 802.1ad.
pub const QINQ_9100: u16 = 0x9100;
/// Another tag of service providers before IEEE 802.1ad.
pub const QINQ_9200: u16 = 0x9200;
/// A timestamp that Arista's switches insert.
pub const ARISTA_TIMESTAMP: u16 = 0xd28b;

/// The smallest type: smaller numbers in its place are lengths (IEEE 802.3, section 3.2.6).
pub const MIN: u16 = 0x0600;
/// The largest length of an IEEE 802.3 frame.
pub const MAX_LENGTH: u16 = 1500;

/// Returns true for the types of VLAN tags, which have 4 bytes and name the type after them.
#[inline]
#[must_use]
pub const fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, VLAN | QINQ | QINQ_9100 | QINQ_9200)
}

/// Protocol numbers of PPP (IANA, PPP numbers).
pub mod ppp {
    /// IPv4.
    pub const IPV4: u16 = 0x0021;
    /// IPv6.
    pub const IPV6: u16 = 0x0057;
    /// MPLS labels.
    pub const MPLS: u16 = 0x0281;
    /// MPLS labels of multicast packets.
    pub const MPLS_MULTICAST: u16 = 0x0283;
    /// The link control protocol.
    pub const LCP: u16 = 0xc021;
}
