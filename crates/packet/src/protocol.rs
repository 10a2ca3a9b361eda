//! IP protocol numbers, and UDP ports of tunnels (IANA).

/// IPv6 hop-by-hop options (RFC 8200).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP.
pub const ICMP: u8 = 1;
/// IGMP.
pub const IGMP: u8 = 2;
/// IPv4 in IP.
pub const IPV4: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// IGRP.
pub const IGRP: u8 = 9;
/// UDP.
pub const UDP: u8 = 17;
/// DCCP.
pub const DCCP: u8 = 33;
/// IPv6 in IP.
pub const IPV6: u8 = 41;
/// An IPv6 routing header (RFC 8200).
pub const ROUTING: u8 = 43;
/// An IPv6 fragment header (RFC 8200).
pub const FRAGMENT: u8 = 44;
/// GRE.
pub const GRE: u8 = 47;
/// IPsec's encapsulating security payload (RFC 4303).
pub const ESP: u8 = 50;
/// IPsec's authentication header (RFC 4302).
pub const AUTHENTICATION: u8 = 51;
/// ICMPv6.
pub const ICMPV6: u8 = 58;
/// No next header (RFC 8200).
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options (RFC 8200).
pub const DESTINATION_OPTIONS: u8 = 60;
/// PIM.
pub const PIM: u8 = 103;
/// VRRP, and CARP.
pub const VRRP: u8 = 112;
/// SCTP.
pub const SCTP: u8 = 132;
/// Mobile IPv6 (RFC 6275).
pub const MOBILITY: u8 = 135;
/// UDP-Lite.
pub const UDP_LITE: u8 = 136;
/// MPLS labels in IP (RFC 4023).
pub const MPLS: u8 = 137;
/// Host identity protocol (RFC 7401).
pub const HOST_IDENTITY: u8 = 139;
/// Shim6 (RFC 5533).
pub const SHIM6: u8 = 140;

/// The UDP port of GTP-U.
pub const GTP_U_PORT: u16 = 2152;
/// The UDP port of VXLAN (RFC 7348).
pub const VXLAN_PORT: u16 = 4789;
/// The UDP port of VXLAN on Linux before one was assigned.
pub const VXLAN_LINUX_PORT: u16 = 8472;
/// The UDP port of Geneve (RFC 8926).
pub const GENEVE_PORT: u16 = 6081;
