//! A frame of which every copy differs: number, time, flow and length, with right checksums.
//!
//! The frames are UDP over IPv4 over Ethernet, from 60 bytes on. The payload begins with a mark of
//! two bytes, then the number (16 bits of the run, 48 bits of the packet's number in it, from 0) and
//! the time it was made at (nanoseconds since the epoch), both of 8 bytes in network order. It is
//! written in two ways that agree to the byte: here, and by a program in the kernel
//! (`live/program.rs`).

use std::net::Ipv4Addr;

use super::{Result, SendError};

/// Where fields are, from the frame's first byte on.
pub(super) mod at {
    pub(crate) const IP: usize = 14;
    pub(crate) const IP_LEN: usize = 16;
    pub(crate) const IP_CHECKSUM: usize = 24;
    pub(crate) const SOURCE: usize = 26;
    pub(crate) const UDP: usize = 34;
    pub(crate) const UDP_LEN: usize = 38;
    pub(crate) const UDP_CHECKSUM: usize = 40;
    pub(crate) const MARK: usize = 42;
    pub(crate) const NUMBER: usize = 44;
    pub(crate) const TIME: usize = 52;
    pub(crate) const END: usize = 60;
}

/// The first bytes of the payload.
pub const MARK: [u8; 2] = [0x72, 0x74];
/// The smallest frame, in bytes.
pub const SMALLEST: u16 = 60;
/// Sizes that frames may have in turn, at most.
pub const MOST_SIZES: usize = 4096;
/// Flows at most: a source address each.
pub const MOST_FLOWS: u32 = 1 << 16;
/// Source ports of flows: so many from the first on.
pub(super) const PORTS: u32 = 1 << 14;
pub(super) const FIRST_PORT: u16 = 49_152;
const NUMBER_BITS: u32 = 48;

/// What frames are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateOptions {
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
    /// Source address of the first flow; the others follow.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Destination port.
    pub port: u16,
    /// Bytes of the frames, without the frame check sequence, in turn.
    pub sizes: Vec<u16>,
    /// How many flows frames belong to in turn; each has its own source address and port.
    pub flows: u32,
    /// Tells runs apart at the receiver.
    pub run: u16,
}

impl Default for TemplateOptions {
    /// Frames of 60 bytes of one flow between locally administered MAC addresses and addresses of
    /// the range for benchmarks (RFC 2544, 198.18.0.0/15).
    fn default() -> Self {
        Self {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source: Ipv4Addr::new(198, 18, 0, 1),
            destination: Ipv4Addr::new(198, 19, 0, 1),
            port: 9,
            sizes: vec![SMALLEST],
            flows: 1,
            run: 0,
        }
    }
}

/// Frames ready to be made.
#[derive(Clone, Debug)]
pub struct Template {
    /// The longest frame, with the first flow's source and nothing in the fields that change.
    pub(super) frame: Vec<u8>,
    pub(super) sizes: Vec<Sized>,
    /// Bytes of one round through all sizes.
    round: u64,
    pub(super) flows: u32,
    pub(super) source: u32,
    pub(super) run: u16,
}

/// What of a frame depends on its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sized {
    pub(super) len: u16,
    /// Sums of the native 16-bit words that checksums cover and that do not change, as
    /// [`native_sum`] makes them.
    pub(super) ip_sum: u32,
    pub(super) udp_sum: u32,
}

impl Template {
    /// Checks the options.
    ///
    /// # Errors
    /// A size below [`SMALLEST`], no sizes or too many of them, no flows or too many.
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
        if let Some(small) = options.sizes.iter().find(|size| **size < SMALLEST) {
            return Err(wrong("the size", "at least 60 bytes", small.to_string()));
        }
        if !(1..=MOST_FLOWS).contains(&options.flows) {
            let found = options.flows.to_string();
            return Err(wrong("the number of flows", "1 to 65536", found));
        }
        let longest = options.sizes.iter().copied().max().unwrap_or(SMALLEST);
        let mut frame = head(options);
        // A pattern whose period is no multiple of a word shows a shifted copy.
        let pattern = (frame.len()..longest.into()).map(|at| (at % 251).to_le_bytes()[0]);
        frame.extend(pattern.collect::<Vec<_>>());
        let is_one_flow = options.flows == 1;
        let sized = |&len: &u16| Sized::of(&frame, len, is_one_flow);
        Ok(Self {
            sizes: options.sizes.iter().map(sized).collect(),
            round: options.sizes.iter().map(|&size| u64::from(size)).sum(),
            flows: options.flows,
            source: options.source.into(),
            run: options.run,
            frame,
        })
    }

    /// Bytes of the longest frame.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.frame.len()
    }

    /// Bytes of the frames numbered from `first` on.
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

    /// The number as the payload holds it.
    pub(super) fn marked(&self, number: u64) -> u64 {
        u64::from(self.run) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
    }

    /// Writes the frame of a number, made at a time (nanoseconds since the epoch), to the beginning
    /// of `frame`, and returns its length; 0 where the longest does not fit.
    pub fn write(&self, number: u64, nanos: u64, frame: &mut [u8]) -> usize {
        let sizes = self.sizes.len() as u64;
        let size = self.sizes[usize::try_from(number % sizes).unwrap_or_default()];
        let len = usize::from(size.len);
        let Some(frame) = frame.get_mut(..len) else {
            return 0;
        };
        frame.copy_from_slice(&self.frame[..len]);
        let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
        put(at::IP_LEN, &(size.len - 14).to_be_bytes());
        put(at::UDP_LEN, &(size.len - 34).to_be_bytes());
        put(at::NUMBER, &self.marked(number).to_be_bytes());
        put(at::TIME, &nanos.to_be_bytes());
        let (mut ip, mut udp) = (u64::from(size.ip_sum), u64::from(size.udp_sum));
        if self.flows > 1 {
            let flow = u32::try_from(number % u64::from(self.flows)).unwrap_or_default();
            let source = self.source.wrapping_add(flow).to_be_bytes();
            let port = u16::try_from(flow % PORTS).unwrap_or_default();
            let port = (FIRST_PORT + port).to_be_bytes();
            put(at::SOURCE, &source);
            put(at::UDP, &port);
            ip += native_sum(&source);
            udp += native_sum(&source) + native_sum(&port);
        }
        put(at::IP_CHECKSUM, &folded(ip));
        udp += native_sum(&frame[at::NUMBER..at::END]);
        let checksum = match folded(udp) {
            // Zero would say that there is none (RFC 768).
            [0, 0] => [0xff, 0xff],
            checksum => checksum,
        };
        frame[at::UDP_CHECKSUM..at::MARK].copy_from_slice(&checksum);
        len
    }
}

impl Sized {
    fn of(frame: &[u8], len: u16, is_one_flow: bool) -> Self {
        let mut frame = frame[..usize::from(len)].to_vec();
        frame[at::IP_LEN..at::IP_LEN + 2].copy_from_slice(&(len - 14).to_be_bytes());
        frame[at::UDP_LEN..at::UDP_LEN + 2].copy_from_slice(&(len - 34).to_be_bytes());
        if !is_one_flow {
            frame[at::SOURCE..at::SOURCE + 4].fill(0);
            frame[at::UDP..at::UDP + 2].fill(0);
        }
        let ip = native_sum(&frame[at::IP..at::UDP]);
        // The pseudo header: addresses, protocol, length (RFC 768).
        let udp = native_sum(&frame[at::SOURCE..])
            + native_sum(&[0, 17])
            + native_sum(&(len - 34).to_be_bytes());
        Self {
            len,
            ip_sum: u32::try_from(ip).unwrap_or(u32::MAX),
            udp_sum: u32::try_from(udp).unwrap_or(u32::MAX),
        }
    }
}

/// The frame up to the payload's own bytes.
fn head(options: &TemplateOptions) -> Vec<u8> {
    let mut frame = Vec::with_capacity(at::END);
    frame.extend(options.destination_mac);
    frame.extend(options.source_mac);
    frame.extend([0x08, 0x00]);
    // No options, no fragments, a time to live of 64, UDP (RFC 791).
    frame.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(options.source.octets());
    frame.extend(options.destination.octets());
    frame.extend(FIRST_PORT.to_be_bytes());
    frame.extend(options.port.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(MARK);
    frame.resize(at::END, 0);
    frame
}

/// The sum of 16-bit words in the machine's order: of which the checksum is the fold in that order
/// too (RFC 1071, section 2 (B)).
pub(super) fn native_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let whole: u64 = words
        .iter()
        .map(|&word| u64::from(u16::from_ne_bytes(word)))
        .sum();
    let rest = rest
        .first()
        .map_or(0, |&byte| u16::from_ne_bytes([byte, 0]));
    whole + u64::from(rest)
}

fn folded(mut sum: u64) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!u16::try_from(sum).unwrap_or_default()).to_ne_bytes()
}

/// What the payload of a generated frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The run that it belongs to.
    pub run: u16,
    /// Its number in the run.
    pub number: u64,
    /// When it was made, in nanoseconds since the epoch.
    pub nanos: u64,
}

/// Reads the mark of a frame; nothing where it has none.
#[inline]
#[must_use]
pub fn read_mark(frame: &[u8]) -> Option<Marked> {
    let is_udp = frame.get(12..14)? == [8, 0] && frame.get(at::IP)? == &0x45 && frame[23] == 17;
    let mark = frame.get(at::MARK..at::NUMBER)?;
    if !is_udp || mark != MARK {
        return None;
    }
    let number = u64::from_be_bytes(frame.get(at::NUMBER..at::TIME)?.try_into().ok()?);
    let nanos = u64::from_be_bytes(frame.get(at::TIME..at::END)?.try_into().ok()?);
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
            sizes: vec![60, 61, 333, 1514],
            flows: 40_000,
            run: 0xabcd,
            ..TemplateOptions::default()
        };
        let template = Template::new(&options).expect("valid");
        let mut frame = [0; 1514];
        for number in (0..100_000_u64).step_by(7) {
            let nanos = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let len = template.write(number, nanos, &mut frame);
            let frame = &frame[..len];
            assert_eq!(folded(native_sum(&frame[14..34])), [0, 0], "{number}");
            let pseudo = [&frame[26..34], &[0, 17], &frame[38..40]].concat();
            let udp = native_sum(&frame[34..]) + native_sum(&pseudo);
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
    }
}
