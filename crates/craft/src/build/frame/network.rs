//! IPv4 with options, IPv6 with extension headers.

use etherparse::{
    IpDscp, IpEcn, IpFragOffset, IpNumber, Ipv4Header, Ipv4Options, Ipv6FlowLabel,
    Ipv6FragmentHeader, Ipv6Header,
};

use super::super::BuildError;
use super::super::field::Fields;
use super::{Addresses, Place, join};
use ringtap_packet::headers::route::{self, Stop};

/// Documentation addresses (RFC 5737, RFC 3849).
const SOURCE: [u8; 4] = [192, 0, 2, 1];
const DESTINATION: [u8; 4] = [192, 0, 2, 2];
const SOURCE_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const DESTINATION_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

pub(super) fn addresses_v4(fields: &mut Fields<'_>) -> Result<Addresses, BuildError> {
    let source = fields.ipv4("src", SOURCE)?;
    let destination = fields.ipv4("dst", DESTINATION)?;
    let options = fields.hex("options")?;
    let last_stop = match route::last_stop_v4(&options) {
        Stop::At(at) => options.get(at..).and_then(|rest| rest.first_chunk()),
        _ => None,
    };
    Ok(Addresses::V4(source, *last_stop.unwrap_or(&destination)))
}

pub(super) fn addresses_v6(
    fields: &mut Fields<'_>,
    last_stop: Option<[u8; 16]>,
) -> Result<Addresses, BuildError> {
    let source = fields.ipv6("src", SOURCE_V6)?;
    let destination = fields.ipv6("dst", DESTINATION_V6)?;
    Ok(Addresses::V6(source, last_stop.unwrap_or(destination)))
}

/// The last stop that a routing header tells.
pub(super) fn last_stop_v6(fields: &mut Fields<'_>) -> Result<Option<[u8; 16]>, BuildError> {
    let data = route_data(fields)?;
    let (kind, left, rest) = (data[0], data[1], &data[2..]);
    Ok(match route::last_stop(kind, left, rest) {
        Stop::At(at) => rest.get(at..).and_then(|rest| rest.first_chunk()).copied(),
        _ => None,
    })
}

pub(super) fn ipv4(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let mut options = fields.hex("options")?;
    options.resize(options.len().next_multiple_of(4), 0);
    let too_many = |_| place.misplaced("options have at most 40 bytes");
    let options = Ipv4Options::try_from(&options[..]).map_err(too_many)?;
    let tos = fields.u8("tos", 0)?;
    let fragment = fields.number("frag", 0x1fff)?.unwrap_or(0);
    let mut header = Ipv4Header {
        dscp: IpDscp::try_new(tos >> 2).unwrap_or_default(),
        ecn: IpEcn::try_new(tos & 3).unwrap_or_default(),
        total_len: place.length(20 + options.len())?,
        identification: fields.u16("id", 0)?,
        dont_fragment: fields.flag("df")?,
        more_fragments: fields.flag("mf")?,
        fragment_offset: IpFragOffset::try_new(u16::try_from(fragment).unwrap_or_default())
            .unwrap_or_default(),
        time_to_live: fields.u8("ttl", 64)?,
        protocol: IpNumber(fields.u8("proto", place.protocol())?),
        header_checksum: 0,
        source: fields.ipv4("src", SOURCE)?,
        destination: fields.ipv4("dst", DESTINATION)?,
        options,
    };
    header.header_checksum = header.calc_header_checksum();
    Ok(join(&header.to_bytes(), &place.payload))
}

pub(super) fn ipv6(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let flow = fields.number("flow", 0xf_ffff)?.unwrap_or(0);
    let header = Ipv6Header {
        traffic_class: fields.u8("tc", 0)?,
        flow_label: Ipv6FlowLabel::try_new(flow).unwrap_or_default(),
        payload_length: place.length(0)?,
        next_header: IpNumber(fields.u8("next", place.protocol())?),
        hop_limit: fields.u8("hop", 64)?,
        source: fields.ipv6("src", SOURCE_V6)?,
        destination: fields.ipv6("dst", DESTINATION_V6)?,
    };
    Ok(join(&header.to_bytes(), &place.payload))
}

/// Hop-by-hop and destination options, padded (RFC 8200, sections 4.2 and 4.3).
pub(super) fn options(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let mut options = fields.hex("options")?;
    let len = (options.len() + 2).next_multiple_of(8);
    match len - options.len() - 2 {
        0 => {}
        1 => options.push(0),
        padding => {
            let zeros = padding - 2;
            options.extend([1, u8::try_from(zeros).unwrap_or_default()]);
            options.resize(options.len() + zeros, 0);
        }
    }
    extension(place, fields, &options)
}

/// A routing header; its data begins behind the segments left (RFC 8200, section 4.4).
pub(super) fn routing(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let data = route_data(fields)?;
    extension(place, fields, &data)
}

/// Type, segments left and what follows, padded.
fn route_data(fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let mut data = vec![fields.u8("type", 0)?, fields.u8("left", 0)?];
    data.extend(fields.hex("data")?);
    data.resize((data.len() + 2).next_multiple_of(8) - 2, 0);
    Ok(data)
}

fn extension(
    place: &Place<'_>,
    fields: &mut Fields<'_>,
    data: &[u8],
) -> Result<Vec<u8>, BuildError> {
    let next = fields.u8("next", place.protocol())?;
    let words = (data.len() + 2) / 8 - 1;
    let too_long = |_| place.misplaced("the header has at most 2048 bytes");
    let header = [next, u8::try_from(words).map_err(too_long)?];
    Ok([&header, data, &place.payload].concat())
}

pub(super) fn fragment(place: &Place<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>, BuildError> {
    let offset = fields.number("offset", 0x1fff)?.unwrap_or(0);
    let header = Ipv6FragmentHeader {
        next_header: IpNumber(fields.u8("next", place.protocol())?),
        fragment_offset: IpFragOffset::try_new(u16::try_from(offset).unwrap_or_default())
            .unwrap_or_default(),
        more_fragments: fields.flag("more")?,
        identification: fields.u32("id", 0)?,
    };
    Ok(join(&header.to_bytes(), &place.payload))
}
