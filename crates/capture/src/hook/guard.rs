//! The guard before stealing: finds the host's uses of a device.

use std::fmt;

use ringtap_sys::netlink::{self, Link, Name, Netlink, WideRoute};

use crate::devices::Flags;

/// A use that would stop working if received packets of a device were stolen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StealHazard {
    /// The host's local connections use it.
    Loopback,
    /// It has a default route, or a route so wide that losing it disconnects the host.
    Route {
        /// The route.
        route: WideRoute,
        /// The interfaces from the device (not included) up to the one with the route: a VLAN, a bond, a
        /// bridge. Empty if it is the device itself.
        through: Vec<Name>,
    },
    /// There is such a route, and the kernel does not show its interface.
    UnknownRoute(WideRoute),
}

/// Returns the uses of a device: default routes of IPv4 and IPv6 in all routing tables, the halves into which
/// VPNs split them, also those through an interface above the device. Interfaces above it in another network
/// namespace cannot be seen.
///
/// # Errors
/// Interfaces or routes cannot be read.
pub fn steal_hazards(netlink: &mut Netlink, index: u32) -> netlink::Result<Vec<StealHazard>> {
    let routes = netlink.wide_routes()?;
    Ok(hazards(&netlink.links()?, &routes, index))
}

pub(crate) fn hazards(links: &[Link], routes: &[WideRoute], index: u32) -> Vec<StealHazard> {
    let mut found = Vec::new();
    let is_loopback = |link: &Link| link.index == index && Flags(link.flags).is_loopback();
    if links.iter().any(is_loopback) {
        found.push(StealHazard::Loopback);
    }
    let above = reached_from(links, index);
    for route in routes {
        let Some(by) = route.index else {
            found.push(StealHazard::UnknownRoute(*route));
            continue;
        };
        if let Some((_, through)) = above.iter().find(|(reached, _)| *reached == by) {
            found.push(StealHazard::Route {
                route: *route,
                through: through.clone(),
            });
        }
    }
    found
}

/// Returns the device and all interfaces above it, each with the path.
fn reached_from(links: &[Link], index: u32) -> Vec<(u32, Vec<Name>)> {
    let mut reached = vec![(index, Vec::new())];
    let mut next = 0;
    while let Some((current, way)) = reached.get(next).cloned() {
        let master = links
            .iter()
            .find(|link| link.index == current)
            .and_then(|link| link.master);
        for link in links {
            let runs_on = link.parent == Some(current) && link.parent_namespace.is_none();
            let is_new = reached.iter().all(|(known, _)| *known != link.index);
            if (runs_on || master == Some(link.index)) && is_new {
                let mut way = way.clone();
                way.push(link.name.clone());
                reached.push((link.index, way));
            }
        }
        next += 1;
    }
    reached
}

impl fmt::Display for StealHazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("the host talks to itself over it"),
            Self::Route { route, through } => {
                match through.last() {
                    None => f.write_str("it carries ")?,
                    Some(name) => write!(f, "{name} above it carries ")?,
                }
                describe(route, f)
            }
            Self::UnknownRoute(route) => {
                f.write_str("it may carry ")?;
                describe(route, f)
            }
        }
    }
}

fn describe(route: &WideRoute, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let family = if route.is_ipv6 { "IPv6" } else { "IPv4" };
    match route.prefix {
        0 => write!(f, "the {family} default route")?,
        bits => write!(f, "an {family} route of prefix length {bits}")?,
    }
    // The main table is not mentioned (rtnetlink(7), RT_TABLE_MAIN).
    if route.table == 254 {
        return Ok(());
    }
    write!(f, " of table {}", route.table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, parent: Option<u32>, master: Option<u32>) -> Link {
        Link {
            index,
            name: Name::new(name.as_bytes()),
            parent,
            master,
            ..Link::default()
        }
    }

    fn route(index: u32) -> WideRoute {
        WideRoute {
            index: Some(index),
            is_ipv6: false,
            prefix: 0,
            table: 254,
        }
    }

    fn texts(links: &[Link], routes: &[WideRoute], index: u32) -> Vec<String> {
        let found = hazards(links, routes, index);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn routes_are_found_through_vlan_bond_and_bridge() {
        // eth0 and eth1 in bond0, vlan5 on bond0, vlan5 in br0; eth2 apart.
        let links = [
            link(2, "eth0", None, Some(4)),
            link(3, "eth1", None, Some(4)),
            link(4, "bond0", None, None),
            link(5, "vlan5", Some(4), Some(6)),
            link(6, "br0", None, None),
            link(7, "eth2", None, None),
        ];
        let expected = ["br0 above it carries the IPv4 default route"];
        for device in 2..=5 {
            assert_eq!(texts(&links, &[route(6)], device), expected, "{device}");
        }
        assert_eq!(
            texts(&links, &[route(6)], 6),
            ["it carries the IPv4 default route"]
        );
        assert!(texts(&links, &[route(6)], 7).is_empty());
        assert!(
            texts(&links, &[route(2)], 4).is_empty(),
            "beneath is not above"
        );
    }

    #[test]
    fn policy_routes_and_halves_are_named() {
        let links = [link(2, "eth0", None, None)];
        let half = WideRoute {
            prefix: 1,
            ..route(2)
        };
        let policy = WideRoute {
            is_ipv6: true,
            table: 100,
            ..route(2)
        };
        let unknown = WideRoute {
            index: None,
            ..route(2)
        };
        let expected = [
            "it carries an IPv4 route of prefix length 1",
            "it carries the IPv6 default route of table 100",
            "it may carry the IPv4 default route",
        ];
        assert_eq!(texts(&links, &[half, policy, unknown], 2), expected);
    }

    #[test]
    fn an_interface_of_another_namespace_is_not_mistaken_for_one_of_ours() {
        let mut foreign = link(3, "veth0", Some(2), None);
        foreign.parent_namespace = Some(0);
        let links = [link(2, "eth0", None, None), foreign];
        assert!(hazards(&links, &[route(3)], 2).is_empty());
    }

    #[test]
    fn loopback_is_guarded() {
        let mut lo = link(1, "lo", None, None);
        lo.flags = 1 << 3;
        assert_eq!(hazards(&[lo], &[], 1), [StealHazard::Loopback]);
    }
}
