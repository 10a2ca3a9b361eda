//! TCP, UDP, ICMP and ICMPv6.

use etherparse::{LaxSlicedPacket, TcpOptionElement, TcpSlice, TransportSlice};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::message::Dns;
use crate::print::bytes::Bytes;

const DNS: u16 = 53;
const MULTICAST_DNS: u16 = 5353;

/// What stands above the network header; at most one of the first four.
#[derive(Default)]
pub(super) struct Transport<'a> {
    pub(super) tcp: Option<Tcp<'a>>,
    pub(super) udp: Option<Udp>,
    pub(super) icmp: Option<Icmp>,
    pub(super) icmp6: Option<Icmp>,
    pub(super) dns: Option<Dns<'a>>,
}

impl<'a> Transport<'a> {
    pub(super) fn of(layers: Option<&LaxSlicedPacket<'a>>) -> Self {
        let mut all = Self::default();
        match layers.and_then(|layers| layers.transport.as_ref()) {
            Some(TransportSlice::Tcp(segment)) => {
                let payload = segment.payload();
                if segment.source_port() == DNS || segment.destination_port() == DNS {
                    all.dns = payload.get(2..).and_then(Dns::of);
                }
                all.tcp = Some(Tcp::of(segment));
            }
            Some(TransportSlice::Udp(datagram)) => {
                let (src_port, dst_port) = (datagram.source_port(), datagram.destination_port());
                if [DNS, MULTICAST_DNS]
                    .iter()
                    .any(|port| [src_port, dst_port].contains(port))
                {
                    all.dns = Dns::of(datagram.payload());
                }
                all.udp = Some(Udp {
                    src_port,
                    dst_port,
                    length: datagram.length(),
                });
            }
            Some(TransportSlice::Icmpv4(message)) => {
                let kind = message.type_u8();
                let echo = kind == 0 || kind == 8;
                all.icmp = Some(Icmp::of(kind, message.code_u8(), message.bytes5to8(), echo));
            }
            Some(TransportSlice::Icmpv6(message)) => {
                let kind = message.type_u8();
                let echo = kind == 128 || kind == 129;
                all.icmp6 = Some(Icmp::of(kind, message.code_u8(), message.bytes5to8(), echo));
            }
            _ => {}
        }
        all
    }
}

#[derive(Serialize)]
pub(super) struct Udp {
    src_port: u16,
    dst_port: u16,
    /// Header and payload, as the datagram states it.
    length: u16,
}

#[derive(Serialize)]
pub(super) struct Icmp {
    r#type: u8,
    code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u16>,
}

impl Icmp {
    fn of(kind: u8, code: u8, [a, b, c, d]: [u8; 4], echo: bool) -> Self {
        Self {
            r#type: kind,
            code,
            id: echo.then(|| u16::from_be_bytes([a, b])),
            seq: echo.then(|| u16::from_be_bytes([c, d])),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Tcp<'a> {
    src_port: u16,
    dst_port: u16,
    seq: u32,
    ack: u32,
    flags: Flags,
    window: u16,
    urgent: u16,
    #[serde(skip_serializing_if = "Options::is_empty")]
    options: Options<'a>,
    /// Captured bytes of payload.
    payload_len: usize,
}

impl<'a> Tcp<'a> {
    fn of(segment: &TcpSlice<'a>) -> Self {
        let header = segment.slice();
        Self {
            src_port: segment.source_port(),
            dst_port: segment.destination_port(),
            seq: segment.sequence_number(),
            ack: segment.acknowledgment_number(),
            flags: Flags(header.u8_at(13).unwrap_or_default()),
            window: segment.window_size(),
            urgent: segment.urgent_pointer(),
            options: Options(segment.clone()),
            payload_len: segment.payload().len(),
        }
    }
}

/// The flags that are set, by name.
struct Flags(u8);

impl Serialize for Flags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const NAMES: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
        let set = NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 >> bit & 1 == 1);
        serializer.collect_seq(set.map(|(_, name)| name))
    }
}

struct Options<'a>(TcpSlice<'a>);

impl Options<'_> {
    fn is_empty(&self) -> bool {
        self.0.options().is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum TcpOption {
    Mss(u16),
    WindowScale(u8),
    SackPermitted(bool),
    Sack([Option<(u32, u32)>; 4]),
    Timestamps(u32, u32),
}

impl Serialize for Options<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        // What follows a damaged option cannot be read.
        for option in self.0.options_iterator().map_while(Result::ok) {
            let option = match option {
                TcpOptionElement::MaximumSegmentSize(size) => TcpOption::Mss(size),
                TcpOptionElement::WindowScale(shift) => TcpOption::WindowScale(shift),
                TcpOptionElement::SelectiveAcknowledgementPermitted => {
                    TcpOption::SackPermitted(true)
                }
                TcpOptionElement::SelectiveAcknowledgement(first, [b, c, d]) => {
                    TcpOption::Sack([Some(first), b, c, d])
                }
                TcpOptionElement::Timestamp(value, echo) => TcpOption::Timestamps(value, echo),
                TcpOptionElement::Noop => continue,
            };
            list.serialize_element(&option)?;
        }
        list.end()
    }
}
