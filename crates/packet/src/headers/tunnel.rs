//! Tunnels: finds the inner packet.

use super::ip::{self, Ip, Part};
use super::link::{self, Link};
use crate::bytes::{be16, be32, byte};
use crate::protocol::{self, GRE, GTP_U_PORT, UDP, VXLAN_LINUX_PORT, VXLAN_PORT};

/// A tunnel that a packet was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// Its protocol.
    pub kind: TunnelKind,
    /// The identifier: VXLAN network identifier (24 bits; 351), tunnel endpoint identifier of GTP-U
    /// (507), key of GRE (296); 0 if there is none.
    pub id: u32,
}

/// Protocols of tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelKind {
    /// Generic routing encapsulation, RFC 2784 and RFC 2890; NVGRE, RFC 7637.
    Gre,
    /// VXLAN, RFC 7348.
    Vxlan,
    /// The user plane of the GPRS tunnelling protocol, 3GPP TS 29.281.
    GtpU,
    /// IP in IP, RFC 2003, RFC 2473, RFC 4213.
    IpInIp,
}

/// The tunnels to look into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunnels {
    /// GRE and NVGRE.
    pub gre: bool,
    /// VXLAN, to the ports 4789 and 8472.
    pub vxlan: bool,
    /// GTP-U, to the port 2152.
    pub gtp_u: bool,
    /// IP in IP: protocols 4 and 41.
    pub ip_in_ip: bool,
}

impl Tunnels {
    /// All tunnels.
    pub const ALL: Self = Self {
        gre: true,
        vxlan: true,
        gtp_u: true,
        ip_in_ip: true,
    };

    /// Returns whether any tunnel is selected.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Moves to the packet inside the innermost of the tunnels, and returns that tunnel. Without a
    /// tunnel it returns `None` and leaves `ip` unchanged. `wire` is the number of bytes of the
    /// whole packet on the wire.
    pub fn enter(self, data: &[u8], wire: usize, ip: &mut Ip) -> Option<Tunnel> {
        let mut found = None;
        for _ in 0..NESTED {
            let Some((at, tunnel)) = self.inside(data, ip) else {
                break;
            };
            let mut inner = Ip::default();
            if ip::parse(data, at, wire, &mut inner).is_none() {
                break;
            }
            *ip = inner;
            found = Some(tunnel);
        }
        found
    }

    /// Returns the offset of the IP header inside a tunnel's packet, if there is one.
    fn inside(self, data: &[u8], ip: &Ip) -> Option<(usize, Tunnel)> {
        let at = ip.transport?;
        if ip.part != Part::Whole {
            return None;
        }
        match ip.protocol {
            GRE if self.gre => gre(data, at),
            protocol::IPV4 | protocol::IPV6 if self.ip_in_ip => {
                let kind = TunnelKind::IpInIp;
                Some((at, Tunnel { kind, id: 0 }))
            }
            UDP => match be16(data, at + 2)? {
                VXLAN_PORT | VXLAN_LINUX_PORT if self.vxlan => vxlan(data, at + 8),
                GTP_U_PORT if self.gtp_u => gtp_u(data, at + 8),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The most nested tunnels.
const NESTED: usize = 4;

fn gre(data: &[u8], at: usize) -> Option<(usize, Tunnel)> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGEMENT: u16 = 0x0080;
    let flags = be16(data, at)?;
    let version = flags & 7;
    let protocol = be16(data, at + 2)?;
    let mut next = at + 4;
    if flags & (CHECKSUM | ROUTING) != 0 {
        next += 4;
    }
    let mut id = 0;
    if flags & KEY != 0 {
        id = be32(data, next)?;
        next += 4;
    }
    if flags & SEQUENCE != 0 {
        next += 4;
    }
    let mut inside = Link::default();
    let found = match version {
        // Source routes have a variable length and are not used.
        0 if flags & ROUTING == 0 => link::ethertype(data, protocol, next, &mut inside)?,
        // PPTP (RFC 2637): the key contains a length and the call number.
        1 => {
            if flags & ACKNOWLEDGEMENT != 0 {
                next += 4;
            }
            id &= 0xffff;
            link::ethertype(data, protocol, next, &mut inside)?
        }
        _ => return None,
    };
    let kind = TunnelKind::Gre;
    inside.is_ip().then_some((found, Tunnel { kind, id }))
}

fn vxlan(data: &[u8], at: usize) -> Option<(usize, Tunnel)> {
    const IDENTIFIED: u8 = 0x08;
    if byte(data, at)? & IDENTIFIED == 0 {
        return None;
    }
    let id = be32(data, at + 4)? >> 8;
    let mut inside = Link::default();
    let found = link::ethernet(data, at + 8, &mut inside)?;
    let kind = TunnelKind::Vxlan;
    inside.is_ip().then_some((found, Tunnel { kind, id }))
}

fn gtp_u(data: &[u8], at: usize) -> Option<(usize, Tunnel)> {
    const VERSION_1: u8 = 0x30;
    const USER_DATA: u8 = 255;
    const EXTRA: u8 = 0x07;
    const EXTENDED: u8 = 0x04;
    const EXTENSIONS: usize = 8;
    let flags = byte(data, at)?;
    if flags & 0xf0 != VERSION_1 || byte(data, at + 1)? != USER_DATA {
        return None;
    }
    let id = be32(data, at + 4)?;
    let mut next = at + 8;
    if flags & EXTRA != 0 {
        next += 4;
        let mut extension = if flags & EXTENDED == 0 {
            0
        } else {
            byte(data, next - 1)?
        };
        for _ in 0..EXTENSIONS {
            if extension == 0 {
                break;
            }
            let length = 4 * usize::from(byte(data, next)?.max(1));
            extension = byte(data, next + length - 1)?;
            next += length;
        }
        if extension != 0 {
            return None;
        }
    }
    let kind = TunnelKind::GtpU;
    Some((next, Tunnel { kind, id }))
}
