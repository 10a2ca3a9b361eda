//! Names of protocols and applications, and what a record says of its application.

use std::fmt;
use std::net::IpAddr;

use ringtap_flow::{EndReason, FlowRecord};
use ringtap_inspect::{NameSource, Protocol, Transport, protocol_of};
use ringtap_packet::protocol;

/// A flow's application, and the basis of this knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Application<'a> {
    pub(crate) name: &'a str,
    /// `content` or `port`.
    pub(crate) basis: &'static str,
}

/// Returns the application of a record: by its payloads, or else by its ports.
pub(crate) fn application(record: &FlowRecord) -> Option<Application<'static>> {
    let key = &record.key;
    let transport = match key.protocol {
        protocol::TCP => Transport::Tcp { sequence: 0 },
        protocol::UDP => Transport::Udp,
        _ => return None,
    };
    let entry = record.application.as_ref();
    let ports = (key.source_port, key.destination_port);
    let (application, basis) = protocol_of(entry, transport, ports.0, ports.1)?;
    Some(Application {
        name: application.name(),
        basis: basis.name(),
    })
}

/// Returns the name of a record and where it comes from: text that is printable.
pub(crate) fn name(record: &FlowRecord) -> Option<(&str, &'static str)> {
    let fields = record.application.as_ref()?.fields();
    Some((fields.name?.as_str(), fields.name_source?.name()))
}

/// Returns the host that the name of a record is about, with the name.
pub(crate) fn host_name(record: &FlowRecord) -> Option<(IpAddr, &str, &'static str)> {
    let source = record.application.as_ref()?.fields().name_source?;
    let (name, word) = name(record)?;
    let host = match source {
        NameSource::Sni | NameSource::Dns | NameSource::Http | NameSource::Quic => {
            record.responder()
        }
        NameSource::Dhcp => record.key.source,
        // These are asked for by all hosts.
        _ => return None,
    };
    // An address says nothing about an address.
    name.parse::<IpAddr>()
        .is_err()
        .then_some((host, name, word))
}

/// Returns whether a record has a DNS question, and whether its answer is an error.
pub(crate) fn dns(record: &FlowRecord) -> (bool, bool) {
    let Some(entry) = record.application.as_ref() else {
        return (false, false);
    };
    let fields = entry.fields();
    let is_error = fields.dns_rcode.is_some_and(|code| code != 0);
    (fields.protocol == Some(Protocol::Dns), is_error)
}

/// Returns whether packets of a protocol have ports.
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
            protocol::IGMP => f.pad("igmp"),
            protocol::TCP => f.pad("tcp"),
            protocol::UDP => f.pad("udp"),
            protocol::ICMPV6 => f.pad("icmp6"),
            protocol::SCTP => f.pad("sctp"),
            protocol::GRE => f.pad("gre"),
            protocol::ESP => f.pad("esp"),
            protocol::AUTHENTICATION => f.pad("ah"),
            protocol::PIM => f.pad("pim"),
            protocol::DCCP => f.pad("dccp"),
            protocol::UDP_LITE => f.pad("udplite"),
            number => f.pad(&number.to_string()),
        }
    }
}

/// Returns the word for the reason of a flow's end.
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
    fn numbers_have_words() {
        assert_eq!(flags(0x12), "S.");
        assert_eq!(ProtocolName(200).to_string(), "200");
    }
}
