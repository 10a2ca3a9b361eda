//! Names of protocols and applications, and what a record says of its application.

use std::fmt;

use ringtap_flow::{EndReason, FlowRecord};
use ringtap_packet::protocol;

/// What is known of a flow's application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Application<'a> {
    pub(crate) name: &'a str,
    /// `content` or `port`.
    pub(crate) basis: &'static str,
}

/// Ports that applications are known by, where nothing else is known of a flow.
const PORTS: [(u16, &str); 30] = [
    (20, "ftp"),
    (21, "ftp"),
    (22, "ssh"),
    (25, "smtp"),
    (53, "dns"),
    (67, "dhcp"),
    (68, "dhcp"),
    (80, "http"),
    (110, "pop3"),
    (123, "ntp"),
    (137, "nbns"),
    (143, "imap"),
    (161, "snmp"),
    (179, "bgp"),
    (389, "ldap"),
    (443, "tls"),
    (445, "smb"),
    (465, "smtp"),
    (514, "syslog"),
    (546, "dhcpv6"),
    (547, "dhcpv6"),
    (587, "smtp"),
    (853, "dns"),
    (993, "imap"),
    (1883, "mqtt"),
    (3306, "mysql"),
    (3389, "rdp"),
    (5353, "mdns"),
    (5432, "postgresql"),
    (6379, "redis"),
];

/// Returns the application of a record.
pub(crate) fn application(record: &FlowRecord) -> Option<Application<'_>> {
    let key = &record.key;
    if !has_ports(key.protocol) {
        return None;
    }
    let of_port = |port| PORTS.binary_search_by_key(&port, |(port, _)| *port).ok();
    let at = of_port(key.destination_port).or_else(|| of_port(key.source_port))?;
    Some(Application {
        name: PORTS[at].1,
        basis: "port",
    })
}

/// Whether packets of a protocol have ports.
pub(crate) fn has_ports(number: u8) -> bool {
    matches!(
        number,
        protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP | protocol::UDP_LITE
    )
}

/// A protocol above IP, by name where it has a well-known one.
pub(crate) struct ProtocolName(pub(crate) u8);

impl fmt::Display for ProtocolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            protocol::ICMP => f.pad("icmp"),
            protocol::TCP => f.pad("tcp"),
            protocol::UDP => f.pad("udp"),
            protocol::ICMPV6 => f.pad("icmp6"),
            protocol::SCTP => f.pad("sctp"),
            protocol::GRE => f.pad("gre"),
            protocol::ESP => f.pad("esp"),
            protocol::DCCP => f.pad("dccp"),
            protocol::UDP_LITE => f.pad("udplite"),
            number => f.pad(&number.to_string()),
        }
    }
}

/// The word for the reason of a flow's end.
pub(crate) fn end_reason(end: EndReason) -> &'static str {
    match end {
        EndReason::Idle => "idle",
        EndReason::Active => "active",
        EndReason::EndOfFlow => "end",
        EndReason::Forced => "forced",
        EndReason::NoResources => "evicted",
    }
}

/// Returns TCP flags as letters, as tcpdump writes them.
pub(crate) fn flags(flags: u16) -> String {
    let letters = ['F', 'S', 'R', 'P', '.', 'U', 'E', 'W', 'e'];
    let set = letters
        .iter()
        .enumerate()
        .filter(|(bit, _)| flags >> bit & 1 == 1);
    set.map(|(_, letter)| letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_in_order() {
        assert!(PORTS.is_sorted_by_key(|(port, _)| *port));
        assert_eq!(flags(0x12), "S.");
        assert_eq!(ProtocolName(200).to_string(), "200");
    }
}
