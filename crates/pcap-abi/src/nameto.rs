//! Resolves names to numbers: the `pcap_nameto*` family, hardware addresses, and the table of
//! protocols that libpcap exports.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uchar, c_ushort};
use std::ptr;

use libc::FILE;
use ringtap_packet::{ether_type, protocol};
use ringtap_sys::resolve::SystemNames;

use crate::boundary::export;
use crate::memory;
use crate::stdio::Stream;
use crate::text::CText;

/// `PROTO_UNDEF`.
const UNDEFINED: c_int = -1;
const TCP: c_int = protocol::TCP as c_int;
const UDP: c_int = protocol::UDP as c_int;

/// `struct eproto` of libpcap.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EtherProtocol {
    name: *const c_char,
    number: c_ushort,
}

// SAFETY: the names are static and are never written to.
unsafe impl Sync for EtherProtocol {}

const fn row(name: &'static std::ffi::CStr, number: c_ushort) -> EtherProtocol {
    let name = name.as_ptr();
    EtherProtocol { name, number }
}

/// The protocols over Ethernet that have names in expressions, up to an entry without a name.
#[unsafe(no_mangle)]
pub(crate) static eproto_db: [EtherProtocol; 13] = [
    row(c"aarp", ether_type::APPLETALK_ARP),
    row(c"arp", ether_type::ARP),
    row(c"atalk", ether_type::APPLETALK),
    row(c"decnet", ether_type::DECNET),
    row(c"ip", ether_type::IPV4),
    row(c"ip6", ether_type::IPV6),
    row(c"lat", ether_type::LAT),
    row(c"loopback", ether_type::LOOPBACK),
    row(c"mopdl", ether_type::MOP_DUMP_LOAD),
    row(c"moprc", ether_type::MOP_CONSOLE),
    row(c"rarp", ether_type::REVERSE_ARP),
    row(c"sca", ether_type::SCA),
    EtherProtocol {
        name: ptr::null(),
        number: 0,
    },
];

/// The LLC service access points that have names.
const LLC: [(&[u8], c_int); 4] = [
    (b"iso", 0xfe),
    (b"stp", 0x42),
    (b"ipx", 0xe0),
    (b"netbeui", 0xf0),
];

/// `struct pcap_etherent`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct EtherEntry {
    address: [c_uchar; 6],
    name: [c_char; 122],
}

unsafe extern "C" {
    fn gethostbyname(name: *const c_char) -> *mut libc::hostent;
}

thread_local! {
    static ENTRY: RefCell<EtherEntry> = const {
        RefCell::new(EtherEntry { address: [0; 6], name: [0; 122] })
    };
}

/// Returns a port by number or name, with its protocol: undefined if several protocols have it.
fn port(name: &str) -> Option<(c_int, c_int)> {
    if name.is_empty() {
        return Some((0, UNDEFINED));
    }
    if let Ok(number) = name.parse::<u32>() {
        let [low, high, ..] = number.to_le_bytes();
        return Some((u16::from_le_bytes([low, high]).into(), UNDEFINED));
    }
    let services = SystemNames::new().service(name).ok()?;
    let of = |protocol: &str| services.iter().find(|service| service.protocol == protocol);
    match (of("tcp"), of("udp")) {
        (Some(tcp), Some(udp)) if tcp.port == udp.port => Some((tcp.port.into(), UNDEFINED)),
        (Some(tcp), _) => Some((tcp.port.into(), TCP)),
        (None, Some(udp)) => Some((udp.port.into(), UDP)),
        (None, None) => None,
    }
}

/// Parses two ports with a dash between them.
fn ports(text: &str) -> Option<(c_int, c_int, c_int)> {
    // A service's name may contain dashes: try each.
    text.match_indices('-').find_map(|(at, dash)| {
        let (first, last) = (port(&text[..at])?, port(&text[at + dash.len()..])?);
        let protocol = if first.1 == last.1 {
            first.1
        } else {
            UNDEFINED
        };
        Some((first.0, last.0, protocol))
    })
}

/// Parses a hardware address: pairs of hexadecimal digits, or single digits before separators.
fn hardware_address(text: &[u8]) -> [u8; 6] {
    let mut address = [0; 6];
    let mut rest = text;
    for byte in &mut address {
        while let [b':' | b'.' | b'-', after @ ..] = rest {
            rest = after;
        }
        let digit = |text: &[u8]| text.first().and_then(|&c| (c as char).to_digit(16));
        let Some(high) = digit(rest) else { break };
        rest = &rest[1..];
        let value = match digit(rest) {
            Some(low) => {
                rest = &rest[1..];
                high << 4 | low
            }
            None => high,
        };
        *byte = u8::try_from(value).unwrap_or(0);
    }
    address
}

fn allocated(address: [u8; 6]) -> *mut c_uchar {
    memory::array(&address).unwrap_or(ptr::null_mut())
}

/// Returns the next entry with address and name from a file in the format of ethers(5).
fn next_entry(stream: Stream) -> Option<EtherEntry> {
    while let Some(line) = stream.line() {
        let text = String::from_utf8_lossy(&line);
        let mut fields = text
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let (Some(address), Some(name)) = (fields.next(), fields.next()) else {
            continue;
        };
        if !address
            .as_bytes()
            .first()
            .is_some_and(u8::is_ascii_hexdigit)
        {
            continue;
        }
        let mut entry = EtherEntry {
            address: hardware_address(address.as_bytes()),
            name: [0; 122],
        };
        for (to, &from) in entry.name[..121].iter_mut().zip(name.as_bytes()) {
            *to = c_char::from_ne_bytes([from]);
        }
        return Some(entry);
    }
    None
}

fn number_of(name: CText<'_>) -> Option<c_int> {
    let name = name.bytes();
    eproto_db.iter().find_map(|entry| {
        if entry.name.is_null() {
            return None;
        }
        // SAFETY: the table's names are strings.
        let known = unsafe { std::ffi::CStr::from_ptr(entry.name) };
        (known.to_bytes() == name).then_some(entry.number.into())
    })
}

export! {
    /// Returns the IPv4 addresses of a host, in the machine's byte order, up to a null.
    fn pcap_nametoaddr(name: CText<'_>) -> *mut *mut u32 {
        let Some(name) = name.get() else { return ptr::null_mut() };
        // SAFETY: the argument is a string. The result is null or a host, whose list of addresses
        // ends with a null; it belongs to this thread until the next such call.
        unsafe {
            let host = gethostbyname(name.as_ptr());
            if host.is_null() || (*host).h_addrtype != libc::AF_INET {
                return ptr::null_mut();
            }
            let list = (*host).h_addr_list.cast::<*mut u32>();
            let mut each = list;
            while !(*each).is_null() {
                let address = (*each).read_unaligned();
                (*each).write_unaligned(u32::from_be(address));
                each = each.add(1);
            }
            list
        }
    } else ptr::null_mut();

    /// Returns the addresses of a host; `freeaddrinfo` frees them.
    fn pcap_nametoaddrinfo(name: CText<'_>) -> *mut libc::addrinfo {
        let Some(name) = name.get() else { return ptr::null_mut() };
        // SAFETY: all-zero bytes are a valid `addrinfo`.
        let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
        hints.ai_socktype = libc::SOCK_STREAM;
        hints.ai_protocol = libc::IPPROTO_TCP;
        let mut found = ptr::null_mut();
        // SAFETY: a string, hints and a place for the result, all of which outlive the call.
        let failed = unsafe {
            libc::getaddrinfo(name.as_ptr(), ptr::null(), &raw const hints, &raw mut found)
        };
        if failed == 0 { found } else { ptr::null_mut() }
    } else ptr::null_mut();

    /// Returns the number of a network; 0 if it is unknown.
    fn pcap_nametonetaddr(name: CText<'_>) -> u32 {
        let name = name.str().unwrap_or_default();
        SystemNames::new().network(name).ok().flatten().unwrap_or(0)
    } else 0;

    /// Finds the port and the protocol of a service. Returns 1, or 0 if there is none.
    fn pcap_nametoport(
        name: CText<'_>, number: Option<&mut c_int>, protocol: Option<&mut c_int>,
    ) -> c_int {
        let (Some(number), Some(protocol)) = (number, protocol) else { return 0 };
        let Some(found) = port(name.str().unwrap_or_default()) else { return 0 };
        (*number, *protocol) = found;
        1
    } else 0;

    /// Finds the ports of a range and their protocol. Returns 1, or 0 if the range is invalid.
    fn pcap_nametoportrange(
        name: CText<'_>,
        first: Option<&mut c_int>,
        last: Option<&mut c_int>,
        protocol: Option<&mut c_int>,
    ) -> c_int {
        let (Some(first), Some(last), Some(protocol)) = (first, last, protocol) else { return 0 };
        let Some(found) = ports(name.str().unwrap_or_default()) else { return 0 };
        (*first, *last, *protocol) = found;
        1
    } else 0;

    /// Returns the number of a protocol over IP, or -1.
    fn pcap_nametoproto(name: CText<'_>) -> c_int {
        let name = name.str().unwrap_or_default();
        let found = SystemNames::new().protocol(name).ok().flatten();
        found.map_or(UNDEFINED, c_int::from)
    } else UNDEFINED;

    /// Returns the number of a protocol over Ethernet, or -1.
    fn pcap_nametoeproto(name: CText<'_>) -> c_int {
        number_of(name).unwrap_or(UNDEFINED)
    } else UNDEFINED;

    /// Returns the LLC service access point with that name, or -1.
    fn pcap_nametollc(name: CText<'_>) -> c_int {
        let name = name.bytes();
        LLC.iter().find(|row| row.0 == name).map_or(UNDEFINED, |row| row.1)
    } else UNDEFINED;

    /// Returns the next entry of a file in the format of ethers(5), in memory that the thread's
    /// next call overwrites; null at the end of the file.
    fn pcap_next_etherent(file: *mut FILE) -> *mut EtherEntry {
        let Some(entry) = Stream::of(file).and_then(next_entry) else {
            return ptr::null_mut();
        };
        ENTRY.with_borrow_mut(|place| {
            *place = entry;
            ptr::from_mut(place)
        })
    } else ptr::null_mut();

    /// Returns the hardware address of a host, 6 bytes to be freed by `free`; null if it is
    /// unknown.
    fn pcap_ether_hostton(name: CText<'_>) -> *mut c_uchar {
        let name = name.str().unwrap_or_default();
        SystemNames::new().ether(name).ok().flatten().map_or(ptr::null_mut(), allocated)
    } else ptr::null_mut();

    /// Parses a hardware address; returns 6 bytes to be freed by `free`.
    fn pcap_ether_aton(text: CText<'_>) -> *mut c_uchar {
        text.get().map_or(ptr::null_mut(), |text| allocated(hardware_address(text.to_bytes())))
    } else ptr::null_mut();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_have_many_forms() {
        for text in [
            "0:1b:2:3:4:5",
            "00-1b-02-03-04-05",
            "001b.0203.0405",
            "001b02030405",
        ] {
            assert_eq!(
                hardware_address(text.as_bytes()),
                [0, 0x1b, 2, 3, 4, 5],
                "{text}"
            );
        }
        assert_eq!(hardware_address(b"01:02"), [1, 2, 0, 0, 0, 0]);
        assert_eq!(hardware_address(b"zz"), [0; 6]);
    }

    #[test]
    fn ports_are_numbers_or_names() {
        assert_eq!(port("80"), Some((80, UNDEFINED)));
        assert_eq!(port("99999"), Some((34463, UNDEFINED)));
        assert_eq!(port("no such service"), None);
        assert_eq!(ports("80-90"), Some((80, 90, UNDEFINED)));
        assert_eq!(ports("-5"), Some((0, 5, UNDEFINED)));
        assert_eq!(ports("80"), None);
    }
}
