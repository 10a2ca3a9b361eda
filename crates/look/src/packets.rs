//! Filters for the packets of a host or a flow.

use std::net::IpAddr;

use crate::Look;
use crate::label::has_ports;

/// Returns the filter for the packets of a host, with a VLAN tag or without.
#[must_use]
pub fn filter_of_host(host: IpAddr) -> String {
    format!("host {host} or (vlan and host {host})")
}

impl Look {
    /// Returns the filter for the packets of a listed flow.
    #[must_use]
    pub fn filter_of_flow(&self, id: &str) -> Option<String> {
        let id = u64::from_str_radix(id, 16).ok()?;
        let key = &self.flow_table.get(id)?.record.key;
        let family = if key.is_ipv6() { "ip6" } else { "ip" };
        let protocol = key.protocol;
        let (a, b) = (key.source, key.destination);
        let way = |from: IpAddr, from_port: u16, to: IpAddr, to_port: u16| {
            let hosts = format!("src host {from} and dst host {to}");
            if has_ports(protocol)
                && protocol != ringtap_packet::protocol::DCCP
                && protocol != ringtap_packet::protocol::UDP_LITE
            {
                format!("({hosts} and src port {from_port} and dst port {to_port})")
            } else {
                format!("({hosts})")
            }
        };
        let (a_port, b_port) = (key.source_port, key.destination_port);
        let ways = format!(
            "({} or {})",
            way(a, a_port, b, b_port),
            way(b, b_port, a, a_port)
        );
        let tags = [key.vlan, key.inner_vlan].into_iter().flatten();
        let tags: String = tags.map(|tag| format!("vlan {tag} and ")).collect();
        Some(format!("{tags}{family} proto {protocol} and {ways}"))
    }
}
