//! From a packet of a tunnel to the packet inside.

use super::bytes::{be16, be32, byte};
use super::ip::{Network, Part};
use super::link::{self, Link};
use super::transport::{Transport, UDP};
use crate::record::{Tunnel, TunnelKind};

const GRE: u8 = 47;
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
/// Ports at which VXLAN is received: IANA's, and that of Linux before it was assigned.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const GTP_U_PORT: u16 = 2152;

/// Which tunnels are looked into, to meter the flows inside instead of the tunnel itself.
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
    /// All of them.
    pub const ALL: Self = Self {
        gre: true,
        vxlan: true,
        gtp_u: true,
        ip_in_ip: true,
    };

    /// Whether there is any.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// The header of IP inside the tunnel's packet, where there is one.
    pub(crate) fn enter(
        self,
        data: &[u8],
        network: &Network,
        transport: &Transport,
    ) -> Option<(usize, Tunnel)> {
        let at = network.transport?;
        if network.part != Part::Whole {
            return None;
        }
        match network.protocol {
            GRE if self.gre => gre(data, at),
            IPV4_IN_IP | IPV6_IN_IP if self.ip_in_ip => {
                let kind = TunnelKind::IpInIp;
                Some((at, Tunnel { kind, id: 0 }))
            }
            UDP if self.vxlan && VXLAN_PORTS.contains(&transport.destination_port) => {
                vxlan(data, at + 8)
            }
            UDP if self.gtp_u && transport.destination_port == GTP_U_PORT => gtp_u(data, at + 8),
            _ => None,
        }
    }
}

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
        // Source routes have a length of their own, and are not used.
        0 if flags & ROUTING == 0 => link::ethertype(data, protocol, next, &mut inside)?,
        // PPTP (RFC 2637): the key holds a length and the call's number.
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
    Some((found, Tunnel { kind, id }))
}

fn vxlan(data: &[u8], at: usize) -> Option<(usize, Tunnel)> {
    const IDENTIFIED: u8 = 0x08;
    if byte(data, at)? & IDENTIFIED == 0 {
        return None;
    }
    let id = be32(data, at + 4)? >> 8;
    let found = link::ethernet(data, at + 8, &mut Link::default())?;
    let kind = TunnelKind::Vxlan;
    Some((found, Tunnel { kind, id }))
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
