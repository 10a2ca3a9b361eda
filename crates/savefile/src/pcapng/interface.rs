//! Interface description blocks (draft-ietf-opsawg-pcapng, section 4.2).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::interface::CaptureFilter;
use crate::pcapng::block::{HEADER, TRAILER};
use crate::pcapng::options::{Options, RawOption, RawOptions, code, encode, encode_end};
use crate::pcapng::section::finish_block;
use crate::pcapng::{FRAME, block_type};
use crate::read_error::{ReadErrorKind, Structure};
use crate::{ByteOrder, Interface, LinkType, Resolution};

/// Bytes of the block before its options.
const FIXED: usize = HEADER + 8;

/// `if_filter` code of a pcap-filter expression.
const FILTER_EXPRESSION: u8 = 0;

/// Parses a complete interface description block, as strictly as libpcap: it rejects options that
/// overrun the block, and timestamp options that are malformed or repeated.
pub(crate) fn parse_interface(block: &[u8], order: ByteOrder) -> Result<Interface, ReadErrorKind> {
    let (Some(link_type), Some(snaplen), true) = (
        order.u16_at(block, 8),
        order.u32_at(block, 12),
        block.len() >= FIXED + TRAILER,
    ) else {
        return Err(ReadErrorKind::BlockTooShort {
            structure: Structure::Block(block_type::INTERFACE),
            length: u32::try_from(block.len()).unwrap_or(u32::MAX),
            min: u32::try_from(FRAME + 8).unwrap_or(u32::MAX),
        });
    };
    let mut interface = Interface::new(LinkType(link_type).canonical(), snaplen);
    interface.resolution = Resolution::MICROS;
    interface.other = RawOptions::new(order);
    let mut options = Options::new(order, &block[FIXED..block.len() - TRAILER]);
    let mut resolution_seen = false;
    let mut offset_seen = false;
    while let Some(option) = options.take()? {
        match option.code {
            code::IF_TSRESOL => {
                once(&mut resolution_seen, "if_tsresol")?;
                let [byte] = fixed(option, "if_tsresol")?;
                interface.resolution = Resolution::from_option(byte)
                    .ok_or(ReadErrorKind::TimestampResolution { value: byte })?;
            }
            code::IF_TSOFFSET => {
                once(&mut offset_seen, "if_tsoffset")?;
                let bytes = fixed(option, "if_tsoffset")?;
                interface.time_offset = order.u64(bytes).cast_signed();
            }
            _ => {
                if !describe(&mut interface, option, order) {
                    interface.other.push(option.code, option.value);
                }
            }
        }
    }
    interface.other.shrink();
    Ok(interface)
}

fn once(seen: &mut bool, option: &'static str) -> Result<(), ReadErrorKind> {
    if std::mem::replace(seen, true) {
        return Err(ReadErrorKind::OptionRepeated { option });
    }
    Ok(())
}

fn fixed<const N: usize>(
    option: RawOption<'_>,
    name: &'static str,
) -> Result<[u8; N], ReadErrorKind> {
    exactly(option.value).ok_or_else(|| ReadErrorKind::OptionLength {
        option: name,
        length: u16::try_from(option.value.len()).unwrap_or(u16::MAX),
        expected: u16::try_from(N).unwrap_or(u16::MAX),
    })
}

/// Stores an option in its field. Returns false if there is no field, or if the option is malformed
/// or repeated.
fn describe(interface: &mut Interface, option: RawOption<'_>, order: ByteOrder) -> bool {
    let value = option.value;
    match option.code {
        code::IF_NAME => set_text(&mut interface.name, value),
        code::IF_DESCRIPTION => set_text(&mut interface.description, value),
        code::IF_OS => set_text(&mut interface.os, value),
        code::IF_HARDWARE => set_text(&mut interface.hardware, value),
        code::IF_SPEED => set(&mut interface.speed, number(value, order)),
        code::IF_TXSPEED => set(&mut interface.tx_speed, number(value, order)),
        code::IF_RXSPEED => set(&mut interface.rx_speed, number(value, order)),
        code::IF_MAC => set(&mut interface.mac, value.try_into().ok()),
        code::IF_EUI => set(&mut interface.eui, value.try_into().ok()),
        code::IF_FCSLEN => set(&mut interface.fcs_len, exactly(value).map(|[bits]| bits)),
        code::IF_FILTER => set(&mut interface.filter, filter(value)),
        code::IF_IPV4 => match exactly::<8>(value) {
            Some([a, b, c, d, e, f, g, h]) => {
                let pair = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
                interface.ipv4.push(pair);
                true
            }
            None => false,
        },
        code::IF_IPV6 => match value.split_first_chunk::<16>() {
            Some((address, [prefix])) => {
                interface.ipv6.push((Ipv6Addr::from(*address), *prefix));
                true
            }
            _ => false,
        },
        _ => false,
    }
}

fn set<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    let takes = field.is_none() && value.is_some();
    if takes {
        *field = value;
    }
    takes
}

fn set_text(field: &mut Option<String>, value: &[u8]) -> bool {
    // Some writers include a terminating zero, which is not part of the text.
    let text = std::str::from_utf8(value).ok();
    let text = text.map(|text| text.trim_end_matches('\0').to_owned());
    set(field, text)
}

fn exactly<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.try_into().ok()
}

fn number(value: &[u8], order: ByteOrder) -> Option<u64> {
    exactly(value).map(|bytes| order.u64(bytes))
}

fn filter(value: &[u8]) -> Option<CaptureFilter> {
    let (&code, bytes) = value.split_first()?;
    if code == FILTER_EXPRESSION
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Some(CaptureFilter::Expression(text.to_owned()));
    }
    Some(CaptureFilter::Raw {
        code,
        bytes: bytes.to_vec(),
    })
}

/// Appends the block that describes the interface.
pub(crate) fn encode_interface(interface: &Interface, order: ByteOrder, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&order.of_u32(block_type::INTERFACE));
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&order.of_u16(interface.link_type.0));
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&order.of_u32(interface.snaplen));
    let options = out.len();
    encode_descriptions(interface, order, out);
    encode_numbers(interface, order, out);
    interface.other.encode(order, out);
    encode_end(options, out);
    finish_block(start, order, out);
}

fn encode_descriptions(interface: &Interface, order: ByteOrder, out: &mut Vec<u8>) {
    let texts = [
        (code::IF_NAME, &interface.name),
        (code::IF_DESCRIPTION, &interface.description),
        (code::IF_OS, &interface.os),
        (code::IF_HARDWARE, &interface.hardware),
    ];
    for (code, text) in texts {
        if let Some(text) = text {
            encode(code, text.as_bytes(), order, out);
        }
    }
    if let Some(filter) = &interface.filter {
        let (code, bytes) = match filter {
            CaptureFilter::Expression(text) => (FILTER_EXPRESSION, text.as_bytes()),
            CaptureFilter::Raw { code, bytes } => (*code, &bytes[..]),
        };
        encode(code::IF_FILTER, &[&[code], bytes].concat(), order, out);
    }
}

fn encode_numbers(interface: &Interface, order: ByteOrder, out: &mut Vec<u8>) {
    let mut put = |code, value: &[u8]| encode(code, value, order, out);
    for (address, mask) in &interface.ipv4 {
        put(code::IF_IPV4, &[address.octets(), mask.octets()].concat());
    }
    for (address, prefix) in &interface.ipv6 {
        put(code::IF_IPV6, &[&address.octets()[..], &[*prefix]].concat());
    }
    if let Some(mac) = &interface.mac {
        put(code::IF_MAC, mac);
    }
    if let Some(eui) = &interface.eui {
        put(code::IF_EUI, eui);
    }
    let speeds = [
        (code::IF_SPEED, interface.speed),
        (code::IF_TXSPEED, interface.tx_speed),
        (code::IF_RXSPEED, interface.rx_speed),
    ];
    for (code, speed) in speeds {
        if let Some(speed) = speed {
            put(code, &order.of_u64(speed));
        }
    }
    put(code::IF_TSRESOL, &[interface.resolution.to_option()]);
    if let Some(bits) = interface.fcs_len {
        put(code::IF_FCSLEN, &[bits]);
    }
    if interface.time_offset != 0 {
        let seconds = interface.time_offset.cast_unsigned();
        put(code::IF_TSOFFSET, &order.of_u64(seconds));
    }
}
