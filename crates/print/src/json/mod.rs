//! A packet as one JSON object, for programs.
//!
//! The parser of `ringtap_packet` finds the headers, also of packets that were captured in part;
//! the objects are serialised directly from the packet's bytes. `docs/reference/output.md`
//! describes the keys, whose meanings do not change.

mod message;
mod network;
mod process;
mod transport;

use std::fmt;
use std::io;

use ringtap_packet::headers::Headers;
use ringtap_packet::headers::link::Link;
use ringtap_packet::process::ProcessTable;
use ringtap_packet::{DropNote, LinkType, Packet, PacketFlags, ShownReason, Timestamp};
use serde::{Serialize, Serializer};

use super::bytes::Bytes;
use super::line::Mac;
use super::timestamp::Rfc3339;

/// Appends the object of one packet.
///
/// # Errors
/// Never fails in practice: the output is memory.
pub(crate) fn object(
    out: &mut Vec<u8>,
    packet: &Packet<'_>,
    link_type: LinkType,
    interface: Option<&str>,
    dropped: Option<&DropNote<'_>>,
    processes: &ProcessTable,
) -> io::Result<()> {
    let data = packet.data;
    let headers = Headers::of(link_type, data, usize::try_from(packet.len).unwrap_or(0));
    let transport = transport::Transport::of(data, &headers);
    let object = Object {
        time: Shown(Rfc3339(packet.timestamp)),
        invalid_time: InvalidTime::of(packet.timestamp),
        interface,
        link_type: Shown(link_type),
        caplen: packet.data.len(),
        len: packet.len,
        direction: direction(packet.flags),
        drop: dropped.map(Dropped::of),
        process: process::Process::of(packet, processes),
        cooked: Cooked::of(data, link_type),
        ethernet: Ethernet::of(data, &headers),
        vlan: Vlans::of(data, &headers),
        arp: network::Arp::of(data, &headers),
        ipv4: network::Ipv4::of(data, &headers),
        ipv6: network::Ipv6::of(data, &headers),
        tcp: transport.tcp,
        udp: transport.udp,
        icmp: transport.icmp,
        icmp6: transport.icmp6,
        dns: transport.dns,
        truncated: (packet.data.len() < usize::try_from(packet.len).unwrap_or(usize::MAX))
            .then_some(true),
    };
    serde_json::to_writer(out, &object).map_err(io::Error::from)
}

/// The stored fields of an invalid time; `time` is then the sum of both.
#[derive(Serialize)]
struct InvalidTime {
    seconds: i64,
    nanoseconds: u64,
}

impl InvalidTime {
    fn of(time: Timestamp) -> Option<Self> {
        let (seconds, nanoseconds) = time.stored();
        (!time.is_valid()).then_some(Self {
            seconds,
            nanoseconds,
        })
    }
}

#[derive(Serialize)]
struct Object<'a> {
    time: Shown<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid_time: Option<InvalidTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a str>,
    link_type: Shown<LinkType>,
    caplen: usize,
    len: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drop: Option<Dropped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<process::Process<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cooked: Option<Cooked<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ethernet: Option<Ethernet<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vlan: Option<Vlans<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arp: Option<network::Arp<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4: Option<network::Ipv4>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6: Option<network::Ipv6>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<transport::Tcp<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp: Option<transport::Udp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp: Option<transport::Icmp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp6: Option<transport::Icmp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<message::Dns<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

/// Why the kernel dropped the packet.
#[derive(Serialize)]
struct Dropped<'a> {
    reason: Shown<ShownReason<'a>>,
    code: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_namespace: Option<u64>,
}

impl<'a> Dropped<'a> {
    fn of(note: &DropNote<'a>) -> Self {
        Self {
            reason: Shown(note.shown_reason()),
            code: note.code,
            function: note.symbol,
            offset: note.symbol.map(|_| note.offset),
            address: note.address.map(|address| format!("{address:#x}")),
            interface: note.interface,
            interface_index: (note.ifindex != 0).then_some(note.ifindex),
            network_namespace: note.namespace,
        }
    }
}

/// A cooked header of either version.
#[derive(Serialize)]
struct Cooked<'a> {
    packet_type: &'static str,
    hardware_type: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface_index: Option<u32>,
    address: Mac<'a>,
    protocol: u16,
}

impl<'a> Cooked<'a> {
    fn of(data: &'a [u8], link_type: LinkType) -> Option<Self> {
        let kind;
        let cooked = if link_type == LinkType::LINUX_SLL2 {
            kind = u16::from(data.u8_at(10).ok()?);
            Self {
                packet_type: "",
                hardware_type: data.u16_at(8).ok()?,
                interface_index: Some(data.u32_at(4).ok()?),
                address: Mac(data
                    .part(12, 8)
                    .ok()?
                    .up_to(usize::from(data.u8_at(11).ok()?))),
                protocol: data.u16_at(0).ok()?,
            }
        } else if link_type == LinkType::LINUX_SLL {
            kind = data.u16_at(0).ok()?;
            Self {
                packet_type: "",
                hardware_type: data.u16_at(2).ok()?,
                interface_index: None,
                address: Mac(data
                    .part(6, 8)
                    .ok()?
                    .up_to(usize::from(data.u16_at(4).ok()?))),
                protocol: data.u16_at(14).ok()?,
            }
        } else {
            return None;
        };
        let packet_type = match kind {
            0 => "in",
            1 => "broadcast",
            2 => "multicast",
            3 => "other_host",
            4 => "out",
            _ => "unknown",
        };
        Some(Self {
            packet_type,
            ..cooked
        })
    }
}

#[derive(Serialize)]
struct Ethernet<'a> {
    src: Mac<'a>,
    dst: Mac<'a>,
    r#type: u16,
}

impl<'a> Ethernet<'a> {
    fn of(data: &'a [u8], headers: &Headers) -> Option<Self> {
        let frame = data.rest(headers.link.ethernet?);
        Some(Self {
            dst: Mac(frame.part(0, 6).ok()?),
            src: Mac(frame.part(6, 6).ok()?),
            r#type: frame.u16_at(12).ok()?,
        })
    }
}

/// The tags of a frame, the outermost first.
struct Vlans<'a>(&'a [u8], Link);

#[derive(Serialize)]
struct Vlan {
    id: u16,
    priority: u8,
    drop_eligible: bool,
    r#type: u16,
}

impl<'a> Vlans<'a> {
    fn of(data: &'a [u8], headers: &Headers) -> Option<Self> {
        (headers.link.tag_count() > 0).then_some(Self(data, headers.link))
    }
}

impl Vlan {
    fn at(data: &[u8], at: usize) -> Option<Self> {
        let control = data.u16_at(at).ok()?;
        Some(Self {
            id: control & 0x0fff,
            priority: data.u8_at(at).ok()? >> 5,
            drop_eligible: control & 0x1000 != 0,
            r#type: data.u16_at(at + 2).ok()?,
        })
    }
}

impl Serialize for Vlans<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tags = self.1.tags().iter();
        serializer.collect_seq(tags.filter_map(|&at| Vlan::at(self.0, at)))
    }
}

/// A value in its text form, written without an intermediate string.
struct Shown<T: fmt::Display>(T);

impl<T: fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for Mac<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the direction from the two lowest bits (pcapng, section 4.3.1).
fn direction(flags: PacketFlags) -> Option<&'static str> {
    match flags.0 & 3 {
        1 => Some("in"),
        2 => Some("out"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_an_unknown_link_type_keeps_its_frame() {
        let packet = Packet {
            timestamp: Timestamp::new(1, 5),
            len: 10,
            interface: 0,
            flags: PacketFlags::INBOUND,
            data: b"abc",
            process: None,
        };
        let mut out = Vec::new();
        object(
            &mut out,
            &packet,
            LinkType(65_000),
            Some("a\"b\n"),
            None,
            &ProcessTable::default(),
        )
        .expect("memory does not fail");
        assert_eq!(
            String::from_utf8_lossy(&out),
            r#"{"time":"1970-01-01T00:00:01.000000005Z","interface":"a\"b\n","link_type":"LINKTYPE_65000","caplen":3,"len":10,"direction":"in","truncated":true}"#
        );
    }

    #[test]
    fn an_invalid_time_is_told_with_what_was_stored() {
        let packet = Packet {
            timestamp: Timestamp::from_micros(1, 1_500_000),
            len: 1,
            interface: 0,
            flags: PacketFlags::default(),
            data: b"a",
            process: None,
        };
        let mut out = Vec::new();
        object(
            &mut out,
            &packet,
            LinkType(65_000),
            None,
            None,
            &ProcessTable::default(),
        )
        .expect("memory does not fail");
        assert_eq!(
            String::from_utf8_lossy(&out),
            r#"{"time":"1970-01-01T00:00:02.500000000Z","invalid_time":{"seconds":1,"nanoseconds":1500000000},"link_type":"LINKTYPE_65000","caplen":1,"len":1}"#
        );
    }
}
