//! IPv4 with options, IPv6 with extension headers.

use ringtap_packet::checksum;
use ringtap_packet::headers::route::{self, Stop};

use super::super::Result;
use super::super::field::Fields;
use super::{Addresses, LayerContext, join};

/// Documentation addresses (RFC 5737, RFC 3849).
const SOURCE: [u8; 4] = [192, 0, 2, 1];
const DESTINATION: [u8; 4] = [192, 0, 2, 2];
const SOURCE_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const DESTINATION_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

pub(super) fn addresses_v4(fields: &mut Fields<'_>) -> Result<Addresses> {
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
) -> Result<Addresses> {
    let source = fields.ipv6("src", SOURCE_V6)?;
    let destination = fields.ipv6("dst", DESTINATION_V6)?;
    Ok(Addresses::V6(source, last_stop.unwrap_or(destination)))
}

/// Returns the last stop in a routing header.
pub(super) fn last_stop_v6(fields: &mut Fields<'_>) -> Result<Option<[u8; 16]>> {
    let data = route_data(fields)?;
    let (kind, left, rest) = (data[0], data[1], &data[2..]);
    Ok(match route::last_stop(kind, left, rest) {
        Stop::At(at) => rest.get(at..).and_then(|rest| rest.first_chunk()).copied(),
        _ => None,
    })
}

pub(super) fn ipv4(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let mut options = fields.hex("options")?;
    options.resize(options.len().next_multiple_of(4), 0);
    let too_many = || place.misplaced("options have at most 40 bytes");
    let words = header_words(options.len()).ok_or_else(too_many)?;
    let tos = fields.u8("tos", 0)?;
    let fragment = fields.number("frag", 0x1fff)?.unwrap_or(0);
    let total = place.length(20 + options.len())?;
    let id = fields.u16("id", 0)?;
    let flags = u32::from(fields.flag("df")?) << 14 | u32::from(fields.flag("mf")?) << 13;
    let mut header = vec![0x40 | words, tos];
    header.extend(total.to_be_bytes());
    let place_in_datagram = u32::from(id) << 16 | flags | fragment;
    header.extend(place_in_datagram.to_be_bytes());
    header.push(fields.u8("ttl", 64)?);
    header.push(fields.u8("proto", place.protocol())?);
    header.extend([0; 2]);
    header.extend(fields.ipv4("src", SOURCE)?);
    header.extend(fields.ipv4("dst", DESTINATION)?);
    header.extend(options);
    let sum = checksum::of(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(join(&header, &place.payload))
}

/// Returns the length of a header of 20 bytes and options, in words of 4 bytes, if it fits into 4
/// bits.
pub(super) fn header_words(options: usize) -> Option<u8> {
    let words = u8::try_from(5 + options / 4).ok();
    words.filter(|&words| words <= 15)
}

pub(super) fn ipv6(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let flow = fields.number("flow", 0xf_ffff)?.unwrap_or(0);
    let class = fields.u8("tc", 0)?;
    let word = 6 << 28 | u32::from(class) << 20 | flow;
    let mut header = word.to_be_bytes().to_vec();
    header.extend(place.length(0)?.to_be_bytes());
    header.push(fields.u8("next", place.protocol())?);
    header.push(fields.u8("hop", 64)?);
    header.extend(fields.ipv6("src", SOURCE_V6)?);
    header.extend(fields.ipv6("dst", DESTINATION_V6)?);
    Ok(join(&header, &place.payload))
}

/// Builds hop-by-hop and destination options, padded (RFC 8200, sections 4.2 and 4.3).
pub(super) fn options(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
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

/// Builds a routing header; its data begins after the segments left (RFC 8200, section 4.4).
pub(super) fn routing(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let data = route_data(fields)?;
    extension(place, fields, &data)
}

/// Returns type, segments left and the data after them, padded.
fn route_data(fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let mut data = vec![fields.u8("type", 0)?, fields.u8("left", 0)?];
    data.extend(fields.hex("data")?);
    data.resize((data.len() + 2).next_multiple_of(8) - 2, 0);
    Ok(data)
}

fn extension(place: &LayerContext<'_>, fields: &mut Fields<'_>, data: &[u8]) -> Result<Vec<u8>> {
    let next = fields.u8("next", place.protocol())?;
    let words = (data.len() + 2) / 8 - 1;
    let too_long = |_| place.misplaced("the header has at most 2048 bytes");
    let header = [next, u8::try_from(words).map_err(too_long)?];
    Ok([&header, data, &place.payload].concat())
}

pub(super) fn fragment(place: &LayerContext<'_>, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let offset = fields.number("offset", 0x1fff)?.unwrap_or(0);
    let next = fields.u8("next", place.protocol())?;
    let more = u32::from(fields.flag("more")?);
    let word = u32::from(next) << 24 | offset << 3 | more;
    let id = fields.u32("id", 0)?;
    let header = [word, id].map(u32::to_be_bytes).concat();
    Ok(join(&header, &place.payload))
}
