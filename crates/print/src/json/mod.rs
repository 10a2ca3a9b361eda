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
use ringtap_packet::{DropNote, LinkType, Packet, PacketFlags, Timestamp};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::bytes::{Bytes, Result};
use super::line::Mac;
use super::timestamp::Rfc3339;
use process::Process;

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
    let object = Object {
        packet,
        link_type,
        interface,
        dropped,
        processes,
    };
    serde_json::to_writer(out, &object).map_err(io::Error::from)
}

struct Object<'a> {
    packet: &'a Packet<'a>,
    link_type: LinkType,
    interface: Option<&'a str>,
    dropped: Option<&'a DropNote<'a>>,
    processes: &'a ProcessTable,
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (packet, data) = (self.packet, self.packet.data);
        let len = usize::try_from(packet.len);
        let headers = Headers::of(self.link_type, data, len.unwrap_or(0));
        let transport = transport::Transport::of(data, &headers);
        let mut members = Members(serializer.serialize_map(None)?);
        members.add("time", &Shown(Rfc3339(packet.timestamp)))?;
        members.some("invalid_time", InvalidTime::of(packet.timestamp))?;
        members.some("interface", self.interface)?;
        members.add("link_type", &Shown(self.link_type))?;
        members.add("caplen", &data.len())?;
        members.add("len", &packet.len)?;
        members.some("direction", direction(packet.flags))?;
        members.some("drop", self.dropped.map(Dropped))?;
        let process = packet.process.map(|one| Process(one, self.processes));
        members.some("process", process)?;
        members.some("cooked", Cooked::of(data, self.link_type))?;
        members.some("ethernet", Ethernet::of(data, &headers))?;
        members.some("vlan", Vlans::of(data, &headers))?;
        members.some("arp", network::Arp::of(data, &headers))?;
        members.some("ipv4", network::Ipv4::of(data, &headers))?;
        members.some("ipv6", network::Ipv6::of(data, &headers))?;
        members.some("tcp", transport.tcp)?;
        members.some("udp", transport.udp)?;
        members.some("icmp", transport.icmp)?;
        members.some("icmp6", transport.icmp6)?;
        members.some("dns", transport.dns)?;
        let is_cut = data.len() < len.unwrap_or(usize::MAX);
        members.some("truncated", is_cut.then_some(true))?;
        members.0.end()
    }
}

/// The members of an object under construction.
struct Members<M>(M);

impl<M: SerializeMap> Members<M> {
    fn add(&mut self, key: &str, value: &impl Serialize) -> Result<(), M::Error> {
        self.0.serialize_entry(key, value)
    }

    /// Adds a member, unless there is no value.
    fn some(&mut self, key: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.add(key, &value))
    }

    /// Adds a text, unless it is empty.
    fn text(&mut self, key: &str, text: &str) -> Result<(), M::Error> {
        self.some(key, Some(text).filter(|text| !text.is_empty()))
    }
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

/// Why the kernel dropped the packet.
struct Dropped<'a>(&'a DropNote<'a>);

impl Serialize for Dropped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let note = self.0;
        let mut members = Members(serializer.serialize_map(None)?);
        members.add("reason", &Shown(note.shown_reason()))?;
        members.add("code", &note.code)?;
        members.some("function", note.symbol)?;
        members.some("offset", note.symbol.map(|_| note.offset))?;
        let address = note.address.map(|address| format!("{address:#x}"));
        members.some("address", address)?;
        members.some("interface", note.interface)?;
        let index = Some(note.ifindex).filter(|index| *index != 0);
        members.some("interface_index", index)?;
        members.some("network_namespace", note.namespace)?;
        members.0.end()
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
        match link_type {
            LinkType::LINUX_SLL => Self::version_1(data).ok(),
            LinkType::LINUX_SLL2 => Self::version_2(data).ok(),
            _ => None,
        }
    }

    fn version_1(data: &'a [u8]) -> Result<Self> {
        Ok(Self {
            packet_type: packet_type(data.u16_at(0)?),
            hardware_type: data.u16_at(2)?,
            interface_index: None,
            address: Mac(data.part(6, 8)?.up_to(usize::from(data.u16_at(4)?))),
            protocol: data.u16_at(14)?,
        })
    }

    fn version_2(data: &'a [u8]) -> Result<Self> {
        Ok(Self {
            packet_type: packet_type(data.u8_at(10)?.into()),
            hardware_type: data.u16_at(8)?,
            interface_index: Some(data.u32_at(4)?),
            address: Mac(data.part(12, 8)?.up_to(usize::from(data.u8_at(11)?))),
            protocol: data.u16_at(0)?,
        })
    }
}

fn packet_type(kind: u16) -> &'static str {
    match kind {
        0 => "in",
        1 => "broadcast",
        2 => "multicast",
        3 => "other_host",
        4 => "out",
        _ => "unknown",
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
