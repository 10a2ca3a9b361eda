//! TCP, UDP, ICMP and ICMPv6.

use ringtap_packet::headers::Headers;
use ringtap_packet::headers::ip::{Ip, Part};
use ringtap_packet::protocol;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::message::Dns;
use crate::bytes::{Bytes, Result, Truncated};

const DNS: u16 = 53;
const MULTICAST_DNS: u16 = 5353;

/// The headers above the network header; at most one of the first four is set.
#[derive(Default)]
pub(super) struct Transport<'a> {
    pub(super) tcp: Option<Tcp<'a>>,
    pub(super) udp: Option<Udp>,
    pub(super) icmp: Option<Icmp>,
    pub(super) icmp6: Option<Icmp>,
    pub(super) dns: Option<Dns<'a>>,
}

impl<'a> Transport<'a> {
    pub(super) fn of(data: &'a [u8], headers: &Headers) -> Self {
        let mut all = Self::default();
        if let Some(ip) = &headers.ip
            && let Some((protocol, payload)) = payload(data, ip)
        {
            // Fields that were not captured completely are left out.
            let _ = all.read(protocol, ip.six, payload);
        }
        all
    }

    fn read(&mut self, protocol: u8, six: bool, data: &'a [u8]) -> Result {
        match (protocol, six) {
            (protocol::TCP, _) => {
                let (segment, payload) = Tcp::of(data)?;
                if [segment.src_port, segment.dst_port].contains(&DNS) {
                    self.dns = payload.get(2..).and_then(Dns::of);
                }
                self.tcp = Some(segment);
            }
            (protocol::UDP, _) => {
                const HEADER: usize = 8;
                let datagram = Udp {
                    src_port: data.u16_at(0)?,
                    dst_port: data.u16_at(2)?,
                    length: data.u16_at(4)?,
                };
                data.part(0, HEADER)?;
                let ports = [datagram.src_port, datagram.dst_port];
                if ports.contains(&DNS) || ports.contains(&MULTICAST_DNS) {
                    let whole = match usize::from(datagram.length) {
                        stated @ HEADER.. => data.up_to(stated),
                        _ => data,
                    };
                    self.dns = Dns::of(whole.rest(HEADER));
                }
                self.udp = Some(datagram);
            }
            (protocol::ICMP, false) => self.icmp = Some(Icmp::of(data, [0, 8])?),
            (protocol::ICMPV6, true) => self.icmp6 = Some(Icmp::of(data, [128, 129])?),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the transport's protocol and captured bytes of a packet that is no fragment, also after an
/// authentication header of IPv4.
fn payload<'a>(data: &'a [u8], ip: &Ip) -> Option<(u8, &'a [u8])> {
    let at = ip.transport.filter(|_| ip.part == Part::Whole)?;
    let payload = data.up_to(ip.end(data.len())).rest(at);
    if ip.protocol == protocol::AUTHENTICATION {
        let [next, words] = payload.array_at(0).ok()?;
        return Some((next, payload.rest(8 + 4 * usize::from(words))));
    }
    Some((ip.protocol, payload))
}

#[derive(Serialize)]
pub(super) struct Udp {
    src_port: u16,
    dst_port: u16,
    /// The length of header and payload, from the datagram's header.
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
    /// Reads a message; `echoes` are the types with an identifier and sequence number.
    fn of(data: &[u8], echoes: [u8; 2]) -> Result<Self> {
        let [kind, code, _, _, a, b, c, d] = data.array_at(0)?;
        let echo = echoes.contains(&kind);
        Ok(Self {
            r#type: kind,
            code,
            id: echo.then(|| u16::from_be_bytes([a, b])),
            seq: echo.then(|| u16::from_be_bytes([c, d])),
        })
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
    /// The captured bytes of payload.
    payload_len: usize,
}

impl<'a> Tcp<'a> {
    /// Reads a segment; returns it with its payload.
    fn of(data: &'a [u8]) -> Result<(Self, &'a [u8])> {
        const HEADER: usize = 20;
        let header = usize::from(data.u8_at(12)? >> 4) * 4;
        let options = data.part(0, header)?.get(HEADER..).ok_or(Truncated)?;
        let payload = data.rest(header);
        let segment = Self {
            src_port: data.u16_at(0)?,
            dst_port: data.u16_at(2)?,
            seq: data.u32_at(4)?,
            ack: data.u32_at(8)?,
            flags: Flags(data.u8_at(13)?),
            window: data.u16_at(14)?,
            urgent: data.u16_at(18)?,
            options: Options(options),
            payload_len: payload.len(),
        };
        Ok((segment, payload))
    }
}

/// The names of the set flags.
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

/// The bytes of the options.
struct Options<'a>(&'a [u8]);

impl Options<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
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

impl TcpOption {
    /// Reads an option of a known kind from its value after kind and length (RFC 9293, section 3.1; RFC 7323;
    /// RFC 2018).
    fn of(kind: u8, value: &[u8]) -> Option<Self> {
        let block = |at| {
            let (left, right) = (value.u32_at(at).ok()?, value.u32_at(at + 4).ok()?);
            Some((left, right))
        };
        Some(match (kind, value.len()) {
            (2, 2) => Self::Mss(value.u16_at(0).ok()?),
            (3, 1) => Self::WindowScale(value.u8_at(0).ok()?),
            (4, 0) => Self::SackPermitted(true),
            (5, 8 | 16 | 24 | 32) => Self::Sack([0, 8, 16, 24].map(block)),
            (8, 8) => Self::Timestamps(value.u32_at(0).ok()?, value.u32_at(4).ok()?),
            _ => return None,
        })
    }
}

impl Serialize for Options<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const END: u8 = 0;
        const NO_OPERATION: u8 = 1;
        let mut list = serializer.serialize_seq(None)?;
        let mut rest = self.0;
        // Reading stops at an option that is damaged or unknown.
        while let Some((&kind, behind)) = rest.split_first() {
            rest = match (kind, behind.first()) {
                (NO_OPERATION, _) => behind,
                (END, _) | (_, None) => break,
                (_, Some(&length)) => {
                    let Some(value) = rest.get(2..usize::from(length)) else {
                        break;
                    };
                    let Some(option) = TcpOption::of(kind, value) else {
                        break;
                    };
                    list.serialize_element(&option)?;
                    rest.rest(usize::from(length))
                }
            };
        }
        list.end()
    }
}
