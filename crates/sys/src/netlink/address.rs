//! Addresses of interfaces (`RTM_GETADDR`) and their default routes (`RTM_GETROUTE`).

use std::net::IpAddr;

use super::message::{Attribute, Attributes, Request, read_u16, read_u32};
use super::{Netlink, Result};

// Constants that the libc crate lacks (include/uapi/linux/{if_addr,rtnetlink}.h).
const IFA_FLAGS: u16 = 8;
const RTA_VIA: u16 = 18;
/// Length of `struct ifaddrmsg`, in bytes.
const ADDRESS_BODY_LEN: usize = 8;
/// Length of `struct rtmsg`, in bytes.
const ROUTE_BODY_LEN: usize = 12;
/// Length of `struct rtnexthop`, in bytes.
const NEXT_HOP_LEN: usize = 8;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the interface.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Length of the network's prefix, in bits.
    pub prefix: u8,
    /// The broadcast address (IPv4).
    pub broadcast: Option<IpAddr>,
    /// The other end of a point-to-point link.
    pub peer: Option<IpAddr>,
    /// The range in which the address is valid (`RT_SCOPE_…`): 0 everywhere, 253 on the link, 254
    /// in the host.
    pub scope: u8,
    /// Its flags (`IFA_F_…`), such as tentative or temporary.
    pub flags: u32,
}

impl Address {
    /// Returns the netmask for the prefix.
    #[must_use]
    pub fn netmask(&self) -> IpAddr {
        let prefix = u32::from(self.prefix);
        match self.address {
            IpAddr::V4(_) => {
                let host = u32::MAX.checked_shr(prefix).unwrap_or(0);
                IpAddr::V4((!host).into())
            }
            IpAddr::V6(_) => {
                let host = u128::MAX.checked_shr(prefix).unwrap_or(0);
                IpAddr::V6((!host).into())
            }
        }
    }
}

/// A default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Index of the interface that packets leave by.
    pub index: u32,
    /// Whether it is for IPv6 (else IPv4).
    pub is_ipv6: bool,
    /// The next router; `None` if the link reaches all destinations directly.
    pub gateway: Option<IpAddr>,
    /// Its priority: the smallest wins.
    pub metric: u32,
    /// The routing table that holds it; 254 is the main one.
    pub table: u32,
}

/// A default route, or a route to a large part of the addresses. A host's connections depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideRoute {
    /// Index of the interface that packets leave by; `None` if the kernel names a next-hop object
    /// instead (`net.ipv4.nexthop_compat_mode` = 0).
    pub index: Option<u32>,
    /// Whether it is for IPv6 (else IPv4).
    pub is_ipv6: bool,
    /// Length of the prefix, in bits, up to [`WIDE_IPV4`] or [`WIDE_IPV6`]: 0 for a default route,
    /// more for the halves that VPNs split it into and for all global IPv6 addresses.
    pub prefix: u8,
    /// The routing table that holds it; 254 is the main one.
    pub table: u32,
}

/// Longest prefix of a [`WideRoute`] for IPv4, in bits.
pub const WIDE_IPV4: u8 = 1;
/// Longest prefix of a [`WideRoute`] for IPv6, in bits.
pub const WIDE_IPV6: u8 = 3;

impl Netlink {
    /// Returns all addresses of the namespace's interfaces. Needs no privilege.
    ///
    /// # Errors
    /// The same as [`links`](Self::links).
    pub fn addresses(&mut self) -> Result<Vec<Address>> {
        let get = (libc::RTM_GETADDR, "RTM_GETADDR");
        let body = [0; ADDRESS_BODY_LEN];
        let entries = self.table(get, &body, libc::RTM_NEWADDR, |_| true)?;
        let addresses = entries.iter().map(|entry| parse_address(entry));
        addresses.filter_map(Result::transpose).collect()
    }

    /// Returns the default routes of the namespace, IPv4 and IPv6, of all tables. Needs no
    /// privilege.
    ///
    /// # Errors
    /// The same as [`links`](Self::links).
    pub fn default_routes(&mut self) -> Result<Vec<DefaultRoute>> {
        let mut routes = Vec::new();
        for entry in self.routes(is_default)? {
            parse_route(&entry, &mut routes)?;
        }
        Ok(routes)
    }

    /// Returns the wanted entries of all routing tables. A router may have a million routes: the others
    /// are not kept.
    fn routes(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> Result<Vec<Vec<u8>>> {
        let get = (libc::RTM_GETROUTE, "RTM_GETROUTE");
        let body = [0; ROUTE_BODY_LEN];
        self.table(get, &body, libc::RTM_NEWROUTE, is_wanted)
    }

    /// Returns the default routes and other wide routes of the namespace, IPv4 and IPv6. Covers all
    /// tables, also those of policy routing. Needs no privilege.
    ///
    /// # Errors
    /// The same as [`links`](Self::links).
    pub fn wide_routes(&mut self) -> Result<Vec<WideRoute>> {
        let mut wide = Vec::new();
        for entry in self.routes(is_wide)? {
            let mut routes = Vec::new();
            parse_route(&entry, &mut routes)?;
            wide.extend(routes.iter().map(|route| WideRoute {
                index: (route.index != 0).then_some(route.index),
                is_ipv6: route.is_ipv6,
                prefix: entry[1],
                table: route.table,
            }));
        }
        Ok(wide)
    }

    /// Returns whether the namespace itself receives packets for an address. The routing tables
    /// decide this, not the interfaces' addresses.
    ///
    /// # Errors
    /// The kernel rejects the request.
    pub fn is_local(&mut self, address: IpAddr) -> Result<bool> {
        let mut body = [0; ROUTE_BODY_LEN];
        let (family, octets) = match address {
            IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
            IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
        };
        // Both families and prefix lengths fit a byte.
        body[0] = family.to_le_bytes()[0];
        body[1] = if address.is_ipv4() { 32 } else { 128 };
        let get = (libc::RTM_GETROUTE, "RTM_GETROUTE");
        let mut request = Request::new(get, libc::NLM_F_ACK, &body, address.to_string());
        request.attribute(libc::RTA_DST, &octets);
        match self.socket.execute(request) {
            Ok(records) => Ok(records.iter().any(|record| {
                record.kind == libc::RTM_NEWROUTE && record.payload.get(7) == Some(&libc::RTN_LOCAL)
            })),
            Err(error) if is_no_route(error.errno()) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn is_no_route(errno: Option<i32>) -> bool {
    matches!(
        errno,
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENOENT)
    )
}

/// Returns whether a message holds a unicast route (`RTN_UNICAST`) with an empty prefix.
fn is_default(payload: &[u8]) -> bool {
    payload.get(1) == Some(&0) && payload.get(7) == Some(&libc::RTN_UNICAST)
}

/// Returns whether a message holds a unicast route with a prefix short enough for a [`WideRoute`].
fn is_wide(payload: &[u8]) -> bool {
    let is_ipv6 = payload.first().map(|&family| i32::from(family)) == Some(libc::AF_INET6);
    let longest = if is_ipv6 { WIDE_IPV6 } else { WIDE_IPV4 };
    payload.get(1).is_some_and(|&prefix| prefix <= longest)
        && payload.get(7) == Some(&libc::RTN_UNICAST)
}

fn parse_address(payload: &[u8]) -> Result<Option<Address>> {
    let attributes = Attributes::after(payload, ADDRESS_BODY_LEN, "address")?;
    let mut flags = u32::from(payload[2]);
    let (mut local, mut remote, mut broadcast) = (None, None, None);
    attributes.each(|attribute| {
        match attribute.kind {
            libc::IFA_LOCAL => local = Some(attribute.address("IFA_LOCAL")?),
            libc::IFA_ADDRESS => remote = Some(attribute.address("IFA_ADDRESS")?),
            libc::IFA_BROADCAST => broadcast = Some(attribute.address("IFA_BROADCAST")?),
            IFA_FLAGS => flags = attribute.u32("IFA_FLAGS")?,
            _ => {}
        }
        Ok(())
    })?;
    // Without a local address, the other one is the interface's own (IPv6), otherwise the peer's.
    let Some(address) = local.or(remote) else {
        return Ok(None);
    };
    Ok(Some(Address {
        index: read_u32(payload, 4).unwrap_or_default(),
        address,
        prefix: payload[1],
        broadcast,
        peer: remote.filter(|remote| *remote != address),
        scope: payload[3],
        flags,
    }))
}

fn parse_route(payload: &[u8], routes: &mut Vec<DefaultRoute>) -> Result<()> {
    let attributes = Attributes::after(payload, ROUTE_BODY_LEN, "route")?;
    let mut route = DefaultRoute {
        index: 0,
        is_ipv6: i32::from(payload[0]) == libc::AF_INET6,
        gateway: None,
        metric: 0,
        table: payload[4].into(),
    };
    let mut hops = None;
    attributes.each(|attribute| {
        match attribute.kind {
            libc::RTA_OIF => route.index = attribute.u32("RTA_OIF")?,
            libc::RTA_PRIORITY => route.metric = attribute.u32("RTA_PRIORITY")?,
            libc::RTA_TABLE => route.table = attribute.u32("RTA_TABLE")?,
            libc::RTA_MULTIPATH => hops = Some(attribute),
            _ => read_gateway(&attribute, &mut route)?,
        }
        Ok(())
    })?;
    match hops {
        Some(hops) => parse_hops(&hops, route, routes)?,
        None => routes.push(route),
    }
    Ok(())
}

fn read_gateway(attribute: &Attribute<'_>, route: &mut DefaultRoute) -> Result<()> {
    match attribute.kind {
        libc::RTA_GATEWAY => route.gateway = Some(attribute.address("RTA_GATEWAY")?),
        RTA_VIA => {
            // struct rtvia: the family in 16 bits, then the address.
            route.gateway = Some(attribute.behind(2, "RTA_VIA")?.address("RTA_VIA")?);
        }
        _ => {}
    }
    Ok(())
}

/// Parses a route over several interfaces: `struct rtnexthop` (length, flags, weight, index), each
/// followed by attributes.
fn parse_hops(
    hops: &Attribute<'_>,
    route: DefaultRoute,
    routes: &mut Vec<DefaultRoute>,
) -> Result<()> {
    let mut rest = *hops;
    while !rest.value.is_empty() {
        let len = read_u16(rest.value, 0).map_or(0, usize::from);
        let (Some(hop), true) = (rest.value.get(..len), len >= NEXT_HOP_LEN) else {
            return Err(rest.malformed("RTA_MULTIPATH", len.max(NEXT_HOP_LEN)));
        };
        let mut one = DefaultRoute {
            index: read_u32(hop, 4).unwrap_or_default(),
            ..route
        };
        let attributes = Attributes::after(hop, NEXT_HOP_LEN, "next hop")?;
        attributes.each(|attribute| read_gateway(&attribute, &mut one))?;
        routes.push(one);
        rest = rest.behind(
            len.next_multiple_of(4).min(rest.value.len()),
            "RTA_MULTIPATH",
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netmasks_follow_prefixes() {
        let address = |address: &str, prefix| Address {
            index: 1,
            address: address.parse().expect("an address"),
            prefix,
            broadcast: None,
            peer: None,
            scope: 0,
            flags: 0,
        };
        let cases = [
            ("10.0.0.1", 0, "0.0.0.0"),
            ("10.0.0.1", 9, "255.128.0.0"),
            ("10.0.0.1", 32, "255.255.255.255"),
            ("10.0.0.1", 200, "255.255.255.255"),
            ("fe80::1", 64, "ffff:ffff:ffff:ffff::"),
            ("fe80::1", 128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ];
        for (text, prefix, netmask) in cases {
            assert_eq!(
                address(text, prefix).netmask().to_string(),
                netmask,
                "{text}/{prefix}"
            );
        }
    }

    #[test]
    fn a_route_over_two_interfaces_is_two_routes() {
        let hop = |index: u32| {
            let mut bytes = vec![16, 0, 0, 0];
            bytes[..2].copy_from_slice(&16_u16.to_ne_bytes());
            bytes.extend(index.to_ne_bytes());
            bytes.extend([8_u16.to_ne_bytes(), 5_u16.to_ne_bytes()].concat());
            bytes.extend([10, 0, 0, 1]);
            bytes
        };
        let mut payload = vec![2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        payload.extend([36_u16.to_ne_bytes(), libc::RTA_MULTIPATH.to_ne_bytes()].concat());
        payload.extend([hop(3), hop(4)].concat());
        assert!(is_default(&payload) && is_wide(&payload));
        let half = [&[2, 1], &payload[2..]].concat();
        assert!(!is_default(&half) && is_wide(&half));
        let quarter = [&[2, 2], &payload[2..]].concat();
        assert!(!is_wide(&quarter));
        let global = [&[10, 3], &payload[2..]].concat();
        assert!(is_wide(&global), "2000::/3");
        let mut routes = Vec::new();
        parse_route(&payload, &mut routes).expect("well-formed");
        let indices: Vec<u32> = routes.iter().map(|route| route.index).collect();
        assert_eq!(indices, [3, 4]);
        assert_eq!(
            routes[1].gateway,
            Some("10.0.0.1".parse().expect("an address"))
        );
        for len in 12..payload.len() {
            let mut routes = Vec::new();
            let cut = parse_route(&payload[..len], &mut routes);
            assert_eq!(cut.is_ok(), len == 12, "{len}");
        }
    }
}
