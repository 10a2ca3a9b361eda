//! Decodes sFlow v5 (sflow.org/sflow_version_5.txt): a datagram goes in, its samples come out. It keeps no state;
//! sequence numbers and quotas are those of [`super::exporters`].
//!
//! A sampled packet becomes a record of one packet: the flow meter reads its header, or the agent has read it
//! (sampled IPv4 and IPv6). Samples and records are read in place and skipped by their lengths, so an unknown
//! one costs nothing, and a wrong one is counted without those before it being lost. The crates
//! `flowparser-sflow` 0.3 and `sflow-parser` 0.7 copy the records of all types into vectors; five types
//! are needed here.
//!
//! The schema has no columns for the next hop and the AS path of extended routers and gateways; their records
//! are skipped.

use std::net::IpAddr;

use ringtap_flow::{FlowKey, FlowRecord, LinkType, Packet, Traffic};

/// The place of sFlow among the versions of [`super::exporters::Stream`]. Its datagrams begin with these 16 bits.
pub(super) const STREAM: u16 = 0;

const VERSION: u32 = 5;

/// Numbers of samples and records: the enterprise (0: sFlow's own) in the upper 20 bits, the format in the others.
mod format {
    pub(super) const FLOW_SAMPLE: u32 = 1;
    pub(super) const EXPANDED_FLOW_SAMPLE: u32 = 3;
    pub(super) const RAW_HEADER: u32 = 1;
    pub(super) const SAMPLED_IPV4: u32 = 3;
    pub(super) const SAMPLED_IPV6: u32 = 4;
    pub(super) const EXTENDED_SWITCH: u32 = 1001;
}

/// A length or a value contradicts the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads numbers of 32 bits and strings that are filled up to them (XDR, RFC 4506).
#[derive(Clone, Copy, Debug)]
struct Xdr<'a>(&'a [u8]);

impl<'a> Xdr<'a> {
    fn word(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// Reads a length and that many bytes. The bytes that fill up the last word may be missing at the end.
    fn opaque(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.word()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        let fill = (4 - length % 4) % 4;
        self.0 = rest.get(fill..).unwrap_or_default();
        Ok(bytes)
    }

    fn skip(&mut self, words: usize) -> Result<(), Malformed> {
        self.0 = self.0.get(4 * words..).ok_or(Malformed)?;
        Ok(())
    }
}

/// A datagram.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// The address of the agent.
    pub(super) agent: IpAddr,
    /// The number of a source of datagrams in the agent.
    pub(super) sub_agent: u32,
    pub(super) sequence: u32,
    count: u32,
    samples: Xdr<'a>,
}

impl<'a> Message<'a> {
    /// Returns the datagram, if its header is one of sFlow v5.
    pub(super) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let mut xdr = Xdr(datagram);
        if xdr.word().ok()? != VERSION {
            return None;
        }
        let agent = match xdr.word().ok()? {
            1 => IpAddr::from(xdr.array::<4>().ok()?),
            2 => IpAddr::from(xdr.array::<16>().ok()?).to_canonical(),
            _ => return None,
        };
        let (sub_agent, sequence) = (xdr.word().ok()?, xdr.word().ok()?);
        let _uptime = xdr.word().ok()?;
        Some(Self {
            agent,
            sub_agent,
            sequence,
            count: xdr.word().ok()?,
            samples: xdr,
        })
    }

    /// Returns the samples, up to an error that hides the rest.
    pub(super) fn samples(&self) -> impl Iterator<Item = Result<Sample<'a>, Malformed>> + use<'a> {
        let (mut left, mut xdr) = (self.count, self.samples);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let framed = xdr.word().and_then(|kind| Ok((kind, xdr.opaque()?)));
            let sample = framed.inspect_err(|_| left = 0);
            Some(sample.and_then(|(kind, body)| match kind {
                format::FLOW_SAMPLE => SampledPacket::parse(body, false).map(Sample::Packet),
                format::EXPANDED_FLOW_SAMPLE => {
                    SampledPacket::parse(body, true).map(Sample::Packet)
                }
                _ => Ok(Sample::Other),
            }))
        })
    }
}

/// A sample.
#[derive(Debug)]
pub(super) enum Sample<'a> {
    Packet(SampledPacket<'a>),
    /// Counters of an interface, or a kind that is not known here.
    Other,
}

/// A packet that the agent took.
#[derive(Debug, Default)]
pub(super) struct SampledPacket<'a> {
    /// The sampling interval N: one of N packets was taken.
    pub(super) one_in: u32,
    /// The index of the input interface; 0 if it is not known, or inside the agent.
    input: u32,
    /// Its first bytes, without the time. Its length is that on the wire, without bytes that the agent removed.
    header: Option<Packet<'a>>,
    /// The fields as the agent read them.
    read: Option<(FlowKey, Traffic)>,
    vlan: Option<u16>,
}

impl<'a> SampledPacket<'a> {
    fn parse(body: &'a [u8], is_expanded: bool) -> Result<Self, Malformed> {
        let mut xdr = Xdr(body);
        let mut sample = Self::default();
        // Its sequence number and its data source.
        xdr.skip(if is_expanded { 3 } else { 2 })?;
        sample.one_in = xdr.word()?.max(1);
        // The packets that could have been taken, and those that were dropped for lack of resources.
        xdr.skip(2)?;
        sample.input = if is_expanded {
            let (kind, index) = (xdr.word()?, xdr.word()?);
            xdr.skip(2)?;
            interface(kind, index)
        } else {
            let input = xdr.word()?;
            xdr.skip(1)?;
            interface(input >> 30, input & INSIDE)
        };
        for _ in 0..xdr.word()? {
            let kind = xdr.word()?;
            sample.read_record(kind, Xdr(xdr.opaque()?))?;
        }
        Ok(sample)
    }

    fn read_record(&mut self, kind: u32, mut body: Xdr<'a>) -> Result<(), Malformed> {
        match kind {
            format::RAW_HEADER => {
                let protocol = body.word()?;
                let (length, removed) = (body.word()?, body.word()?);
                let data = body.opaque()?;
                self.header = link_type(protocol).map(|link| Packet {
                    data,
                    len: length.saturating_sub(removed),
                    time_ns: 0,
                    link,
                    input: self.input,
                });
            }
            format::SAMPLED_IPV4 => self.read = Some(read_by_agent::<4>(&mut body)?),
            format::SAMPLED_IPV6 => self.read = Some(read_by_agent::<16>(&mut body)?),
            format::EXTENDED_SWITCH => {
                let vlan = u16::try_from(body.word()?).ok();
                self.vlan = vlan.filter(|vlan| (1..4095).contains(vlan));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the record of the packet, which was taken at about that time. Returns `None` if it has no IP.
    pub(super) fn record(&self, time_ns: u64) -> Option<FlowRecord> {
        let metered = self
            .header
            .and_then(|header| FlowRecord::of_packet(&Packet { time_ns, ..header }));
        let mut record = metered.or_else(|| {
            let (key, traffic) = self.read?;
            Some(FlowRecord {
                key: FlowKey {
                    input: self.input,
                    ..key
                },
                forward: Traffic {
                    first_ns: time_ns,
                    last_ns: time_ns,
                    ..traffic
                },
                ..FlowRecord::default()
            })
        })?;
        // Switches remove the tag before they take the packet.
        record.key.vlan = record.key.vlan.or(self.vlan);
        Some(record)
    }
}

/// The index of an interface inside the agent; all bits of an index are set.
const INSIDE: u32 = 0x3fff_ffff;

/// Returns the index of an interface. Kind 0 is a single interface; others are reasons and counts.
fn interface(kind: u32, index: u32) -> u32 {
    match (kind, index) {
        (0, index) if index != INSIDE => index,
        _ => 0,
    }
}

/// Returns the link type of a header's protocol, if the meter reads it.
fn link_type(protocol: u32) -> Option<LinkType> {
    Some(match protocol {
        1 => LinkType::ETHERNET,
        7 => LinkType::PPP,
        11 => LinkType::IPV4,
        12 => LinkType::IPV6,
        _ => return None,
    })
}

/// Reads the fields of an IP packet with addresses of `N` bytes.
fn read_by_agent<const N: usize>(body: &mut Xdr<'_>) -> Result<(FlowKey, Traffic), Malformed>
where
    IpAddr: From<[u8; N]>,
{
    let length = body.word()?;
    let protocol = byte(body.word()?);
    let (source, destination) = (body.array::<N>()?, body.array::<N>()?);
    let ports = [short(body.word()?), short(body.word()?)];
    let flags = short(body.word()?);
    let key = FlowKey {
        source: source.into(),
        destination: destination.into(),
        source_port: ports[0],
        destination_port: ports[1],
        protocol,
        tos: byte(body.word()?),
        ..FlowKey::default()
    };
    let traffic = Traffic {
        packets: 1,
        bytes: length.into(),
        tcp_flags: flags & 0xfff,
        min_length: short(length),
        max_length: short(length),
        ..Traffic::default()
    };
    Ok((key, traffic))
}

/// Values that don't fit become the largest one.
fn short(word: u32) -> u16 {
    u16::try_from(word).unwrap_or(u16::MAX)
}

fn byte(word: u32) -> u8 {
    u8::try_from(word).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
