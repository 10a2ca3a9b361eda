//! A frame whose copies differ in number, time, flow and length, with correct checksums.
//!
//! The frames are UDP over IPv4 or IPv6 over Ethernet, from 60 or 80 bytes on. The payload starts with a mark
//! of two bytes. Then come the number (16 bits of the run, 48 bits of the packet's number, from 0) and the
//! creation time (nanoseconds since the epoch), both 8 bytes in network order. Two implementations agree in
//! each byte: this one, and a program in the kernel (`live/program.rs`).

use std::net::{IpAddr, Ipv4Addr};

use ringtap_packet::protocol::UDP;

use crate::{Result, SendError};

/// The offsets of a frame's fields, from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The length field of IP, and the bytes of a frame that it does not count.
    pub(crate) ip_len: usize,
    ip_uncounted: u16,
    /// IPv4 only.
    pub(crate) ip_checksum: Option<usize>,
    /// Both addresses.
    addresses: usize,
    /// The last 32 bits of the source address.
    pub(crate) source: usize,
    pub(crate) udp: usize,
}

/// The start of IP.
const IP: usize = 14;
const HEAD_V6: usize = 40;

impl Layout {
    /// RFC 791.
    const V4: Self = Self {
        ip_len: IP + 2,
        ip_uncounted: 14,
        ip_checksum: Some(IP + 10),
        addresses: IP + 12,
        source: IP + 12,
        udp: IP + 20,
    };
    /// RFC 8200.
    const V6: Self = Self {
        ip_len: IP + 4,
        ip_uncounted: 14 + 40,
        ip_checksum: None,
        addresses: IP + 8,
        source: IP + 20,
        udp: IP + HEAD_V6,
    };

    pub(crate) const fn udp_len(self) -> usize {
        self.udp + 4
    }

    pub(crate) const fn udp_checksum(self) -> usize {
        self.udp + 6
    }

    /// Returns the start of the payload.
    pub(crate) const fn mark(self) -> usize {
        self.udp + 8
    }

    pub(crate) const fn number(self) -> usize {
        self.mark() + MARK.len()
    }

    pub(crate) const fn time(self) -> usize {
        self.number() + 8
    }

    /// Returns the end of the fields: the minimum length of a frame.
    pub(crate) const fn end(self) -> usize {
        self.time() + 8
    }

    /// Returns the IP length in a frame of this many bytes.
    pub(crate) const fn ip_len_of(self, frame: u16) -> [u8; 2] {
        (frame - self.ip_uncounted).to_be_bytes()
    }

    /// Returns the UDP length in a frame of this many bytes.
    pub(crate) const fn udp_len_of(self, frame: u16) -> [u8; 2] {
        (frame - self.udp_offset()).to_be_bytes()
    }

    #[expect(clippy::cast_possible_truncation, reason = "less than 64")]
    pub(crate) const fn udp_offset(self) -> u16 {
        self.udp as u16
    }
}

/// The first bytes of the payload.
const MARK: [u8; 2] = [0x72, 0x74];
/// The smallest frame with IPv4, in bytes.
pub const SMALLEST: u16 = 60;
/// The smallest frame with IPv6, in bytes.
pub const SMALLEST_V6: u16 = 80;
const _: () = assert!(Layout::V4.end() == SMALLEST as usize);
const _: () = assert!(Layout::V6.end() == SMALLEST_V6 as usize);
/// The maximum number of sizes in turn.
pub const MOST_SIZES: usize = 4096;
/// The maximum number of flows: one source address each.
pub const MOST_FLOWS: u32 = 1 << 16;
/// The number of source ports of flows.
pub(crate) const PORTS: u32 = 1 << 14;
pub(crate) const FIRST_PORT: u16 = 49_152;
const NUMBER_BITS: u32 = 48;

ringtap_packet::options! {
    /// Options of a template.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TemplateOptions {
        /// Source MAC address.
        pub source_mac: [u8; 6],
        /// Destination MAC address.
        pub destination_mac: [u8; 6],
        /// Source address of the first flow; the others follow.
        pub source: IpAddr,
        /// Destination address, of the same kind.
        pub destination: IpAddr,
        /// Destination port.
        pub port: u16,
        /// Sizes of the frames in turn, in bytes, without the frame check sequence.
        pub sizes: Vec<u16>,
        /// The number of flows that frames belong to in turn; each has its own source address and port.
        pub flows: u32,
        /// Distinguishes runs at the receiver.
        pub run: u16,
    }
}

impl Default for TemplateOptions {
    /// Returns the defaults: frames of 60 bytes of one flow between locally administered MAC addresses, and
    /// addresses of the range for benchmarks (RFC 2544, 198.18.0.0/15).
    fn default() -> Self {
        Self {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source: Ipv4Addr::new(198, 18, 0, 1).into(),
            destination: Ipv4Addr::new(198, 19, 0, 1).into(),
            port: 9,
            sizes: vec![SMALLEST],
            flows: 1,
            run: 0,
        }
    }
}

/// A template that is ready to make frames.
#[derive(Clone, Debug)]
pub struct Template {
    /// The longest frame, with the first flow's source and zeros in the fields that change.
    pub(crate) frame: Vec<u8>,
    pub(crate) layout: Layout,
    pub(crate) sizes: Vec<Sized>,
    /// Bytes of one round through all sizes.
    round: u64,
    pub(crate) flows: u32,
    pub(crate) source: u32,
    pub(crate) run: u16,
}

/// The parts of a frame that depend on its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sized {
    pub(crate) len: u16,
    /// Sums of the native 16-bit words that checksums cover and that do not change, as [`native_sum`]
    /// computes them.
    pub(crate) ip_sum: u32,
    pub(crate) udp_sum: u32,
}

impl Template {
    /// Checks the options.
    ///
    /// # Errors
    /// Addresses of different kinds; a size below [`SMALLEST`], or [`SMALLEST_V6`]; no sizes or too many of them, no flows or too many.
    pub fn new(options: &TemplateOptions) -> Result<Self> {
        let wrong = |what, expected, found: String| SendError::Value {
            what,
            expected,
            found,
        };
        if !(1..=MOST_SIZES).contains(&options.sizes.len()) {
            let found = options.sizes.len().to_string();
            return Err(wrong("the number of sizes", "1 to 4096", found));
        }
        let (layout, mut frame) = head(options)?;
        let (smallest, expected) = match layout.ip_checksum {
            Some(_) => (SMALLEST, "at least 60 bytes"),
            None => (SMALLEST_V6, "at least 80 bytes with IPv6"),
        };
        if let Some(small) = options.sizes.iter().find(|size| **size < smallest) {
            return Err(wrong("the size", expected, small.to_string()));
        }
        if !(1..=MOST_FLOWS).contains(&options.flows) {
            let found = options.flows.to_string();
            return Err(wrong("the number of flows", "1 to 65536", found));
        }
        let longest = options.sizes.iter().copied().max().unwrap_or(SMALLEST);
        // A pattern whose period is not a multiple of a word reveals a shifted copy.
        let pattern = (frame.len()..longest.into()).map(|at| (at % 251).to_le_bytes()[0]);
        frame.extend(pattern.collect::<Vec<_>>());
        let is_one_flow = options.flows == 1;
        let sized = |&len: &u16| Sized::of(layout, &frame, len, is_one_flow);
        Ok(Self {
            sizes: options.sizes.iter().map(sized).collect(),
            round: options.sizes.iter().map(|&size| u64::from(size)).sum(),
            flows: options.flows,
            source: last_bits(options.source),
            run: options.run,
            layout,
            frame,
        })
    }

    /// Returns the length of the longest frame, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.frame.len()
    }

    /// Returns the lengths of the frames numbered from `first` on, in bytes.
    #[must_use]
    pub fn bytes(&self, first: u64, count: u64) -> u64 {
        self.bytes_before(first.saturating_add(count)) - self.bytes_before(first)
    }

    fn bytes_before(&self, number: u64) -> u64 {
        let sizes = self.sizes.len() as u64;
        let rest = usize::try_from(number % sizes).unwrap_or_default();
        let rest = self.sizes[..rest].iter().map(|size| u64::from(size.len));
        (number / sizes).saturating_mul(self.round) + rest.sum::<u64>()
    }

    /// Returns the number in the form of the payload.
    pub(crate) fn marked(&self, number: u64) -> u64 {
        u64::from(self.run) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
    }

    /// Writes the frame of a number and a creation time (nanoseconds since the epoch) to the start of
    /// `frame`, and returns its length; 0 if the longest does not fit.
    pub fn write(&self, number: u64, nanos: u64, frame: &mut [u8]) -> usize {
        let sizes = self.sizes.len() as u64;
        let size = self.sizes[usize::try_from(number % sizes).unwrap_or_default()];
        let len = usize::from(size.len);
        let Some(frame) = frame.get_mut(..len) else {
            return 0;
        };
        let at = self.layout;
        frame.copy_from_slice(&self.frame[..len]);
        let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
        put(at.ip_len, &at.ip_len_of(size.len));
        put(at.udp_len(), &at.udp_len_of(size.len));
        put(at.number(), &self.marked(number).to_be_bytes());
        put(at.time(), &nanos.to_be_bytes());
        let (mut ip, mut udp) = (u64::from(size.ip_sum), u64::from(size.udp_sum));
        if self.flows > 1 {
            let flow = u32::try_from(number % u64::from(self.flows)).unwrap_or_default();
            let source = self.source.wrapping_add(flow).to_be_bytes();
            let port = u16::try_from(flow % PORTS).unwrap_or_default();
            let port = (FIRST_PORT + port).to_be_bytes();
            put(at.source, &source);
            put(at.udp, &port);
            ip += native_sum(&source);
            udp += native_sum(&source) + native_sum(&port);
        }
        if let Some(checksum) = at.ip_checksum {
            put(checksum, &folded(ip));
        }
        udp += native_sum(&frame[at.number()..at.end()]);
        let checksum = match folded(udp) {
            // Zero would mean no checksum (RFC 768).
            [0, 0] => [0xff, 0xff],
            checksum => checksum,
        };
        frame[at.udp_checksum()..at.mark()].copy_from_slice(&checksum);
        len
    }

    /// Completes the headers for payloads of this many bytes together, which will be cut: the UDP checksum is
    /// the sum of the pseudo header.
    pub(crate) fn write_head(&self, payloads: usize, head: &mut [u8]) {
        let at = self.layout;
        let len = u16::try_from(at.mark() + payloads).unwrap_or(u16::MAX);
        let udp_len = at.udp_len_of(len);
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(at.ip_len, &at.ip_len_of(len));
        put(at.udp_len(), &udp_len);
        put(at.udp_checksum(), &[0; 2]);
        if let Some(checksum) = at.ip_checksum {
            put(checksum, &[0; 2]);
            let sum = native_sum(&head[IP..at.udp]);
            head[checksum..checksum + 2].copy_from_slice(&folded(sum));
        }
        let addresses = &head[at.addresses..at.udp];
        let sum = native_sum(addresses) + native_sum(&[0, UDP]) + native_sum(&udp_len);
        let sum = folded(sum).map(|byte| !byte);
        head[at.udp_checksum()..at.mark()].copy_from_slice(&sum);
    }

    /// Writes number and time into a payload.
    pub(crate) fn write_mark(&self, number: u64, nanos: u64, payload: &mut [u8]) {
        let from = self.layout.mark();
        let mut put = |at: usize, bytes: &[u8]| {
            let at = at - from;
            payload[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(self.layout.number(), &self.marked(number).to_be_bytes());
        put(self.layout.time(), &nanos.to_be_bytes());
    }
}

impl Sized {
    fn of(at: Layout, frame: &[u8], len: u16, is_one_flow: bool) -> Self {
        let mut frame = frame[..usize::from(len)].to_vec();
        let udp_len = at.udp_len_of(len);
        frame[at.ip_len..at.ip_len + 2].copy_from_slice(&at.ip_len_of(len));
        frame[at.udp_len()..at.udp_len() + 2].copy_from_slice(&udp_len);
        if !is_one_flow {
            frame[at.source..at.source + 4].fill(0);
            frame[at.udp..at.udp + 2].fill(0);
        }
        let ip = native_sum(&frame[IP..at.udp]);
        // The pseudo header: addresses, protocol, length (RFC 768; RFC 8200, section 8.1).
        let udp = native_sum(&frame[at.addresses..]) + native_sum(&[0, UDP]) + native_sum(&udp_len);
        Self {
            len,
            ip_sum: u32::try_from(ip).unwrap_or(u32::MAX),
            udp_sum: u32::try_from(udp).unwrap_or(u32::MAX),
        }
    }
}

/// Returns the part of the source address that counts up from flow to flow.
fn last_bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = address.octets();
            u32::from_be_bytes([a, b, c, d])
        }
    }
}

/// Returns the frame up to the payload's own bytes.
fn head(options: &TemplateOptions) -> Result<(Layout, Vec<u8>)> {
    let mut frame = Vec::with_capacity(Layout::V6.end());
    frame.extend(options.destination_mac);
    frame.extend(options.source_mac);
    let layout = match (options.source, options.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([0x08, 0x00]);
            // No options, no fragments, a time to live of 64 (RFC 791).
            frame.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, UDP, 0, 0]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
            Layout::V4
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd]);
            // No class, no flow label, a hop limit of 64 (RFC 8200).
            frame.extend([0x60, 0, 0, 0, 0, 0, UDP, 64]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
            Layout::V6
        }
        (_, destination) => {
            return Err(SendError::Value {
                what: "the destination address",
                expected: "one of the source's kind, IPv4 or IPv6",
                found: destination.to_string(),
            });
        }
    };
    frame.extend(FIRST_PORT.to_be_bytes());
    frame.extend(options.port.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(MARK);
    frame.resize(layout.end(), 0);
    Ok((layout, frame))
}

/// Returns the sum of 16-bit words in the machine's order. Its fold is the checksum in that order (RFC 1071,
/// section 2 (B)).
pub(crate) fn native_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words = words.iter().map(|&word| u16::from_ne_bytes(word));
    let rest = rest.iter().map(|&byte| u16::from_ne_bytes([byte, 0]));
    words.chain(rest).map(u64::from).sum()
}

fn folded(mut sum: u64) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!u16::try_from(sum).unwrap_or_default()).to_ne_bytes()
}

/// The mark of a generated frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The run that it belongs to.
    pub run: u16,
    /// Its number in the run.
    pub number: u64,
    /// When it was created, in nanoseconds since the epoch.
    pub nanos: u64,
}

/// Reads the mark of a frame. `None` if there is none.
#[inline]
#[must_use]
pub fn read_mark(frame: &[u8]) -> Option<Marked> {
    let at = match (frame.get(12..14)?, frame.get(IP)?) {
        ([0x08, 0x00], 0x45) if frame.get(23) == Some(&UDP) => Layout::V4,
        ([0x86, 0xdd], _) if frame.get(20) == Some(&UDP) => Layout::V6,
        _ => return None,
    };
    if frame.get(at.mark()..at.number())? != MARK {
        return None;
    }
    let number = u64::from_be_bytes(frame.get(at.number()..at.time())?.try_into().ok()?);
    let nanos = u64::from_be_bytes(frame.get(at.time()..at.end())?.try_into().ok()?);
    Some(Marked {
        run: u16::try_from(number >> NUMBER_BITS).unwrap_or_default(),
        number: number & ((1 << NUMBER_BITS) - 1),
        nanos,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_frames() {
        let options = TemplateOptions {
            sizes: vec![60, 61, 1514],
            ..TemplateOptions::default()
        };
        let template = Template::new(&options).expect("valid");
        let mut frame = [0; 1514];
        let mut total = 0;
        for number in 0..10 {
            assert_eq!(template.bytes(0, number), total);
            total += template.write(number, 5, &mut frame) as u64;
        }
        assert_eq!(template.bytes(2, 4), 1514 + 60 + 61 + 1514);
        assert_eq!(template.write(2, 5, &mut [0; 100]), 0);
    }

    #[test]
    fn checksums_are_right() {
        let options = TemplateOptions {
            sizes: vec![80, 81, 333, 1514],
            flows: 40_000,
            run: 0xabcd,
            ..TemplateOptions::default()
        };
        check_checksums(&Template::new(&options).expect("valid"));
        let template = Template::new(&TemplateOptions {
            source: "2001:2::ffff:fff0".parse().expect("an address"),
            destination: "2001:2::1:1".parse().expect("an address"),
            ..options
        });
        check_checksums(&template.expect("valid"));
    }

    fn check_checksums(template: &Template) {
        let at = template.layout;
        let mut frame = [0; 1514];
        for number in (0..100_000_u64).step_by(7) {
            let nanos = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let len = template.write(number, nanos, &mut frame);
            let frame = &frame[..len];
            if at.ip_checksum.is_some() {
                assert_eq!(folded(native_sum(&frame[IP..at.udp])), [0, 0], "{number}");
            }
            let (addresses, udp_len) = (&frame[at.addresses..at.udp], &frame[at.udp_len()..][..2]);
            let pseudo = [addresses, &[0, UDP], udp_len].concat();
            let udp = native_sum(&frame[at.udp..]) + native_sum(&pseudo);
            assert_eq!(folded(udp), [0, 0], "{number}");
            let mark = read_mark(frame).expect("marked");
            assert_eq!((mark.run, mark.number, mark.nanos), (0xabcd, number, nanos));
        }
    }

    #[test]
    fn wrong_options_are_refused() {
        let with = |sizes: Vec<u16>, flows| TemplateOptions {
            sizes,
            flows,
            ..TemplateOptions::default()
        };
        for bad in [
            with(vec![], 1),
            with(vec![59], 1),
            with(vec![60; MOST_SIZES + 1], 1),
            with(vec![60], 0),
            with(vec![60], MOST_FLOWS + 1),
        ] {
            assert!(Template::new(&bad).is_err());
        }
        let source = "2001:2::1".parse().expect("an address");
        let mixed = TemplateOptions {
            source,
            sizes: vec![80],
            ..TemplateOptions::default()
        };
        assert!(Template::new(&mixed).is_err());
        let both = TemplateOptions {
            destination: source,
            ..mixed
        };
        assert!(Template::new(&both).is_ok());
        let small = TemplateOptions {
            sizes: vec![79],
            ..both
        };
        assert!(Template::new(&small).is_err());
    }
}
