//! One synthetic frame: headers with correct checksums, a sequence number, a payload.

use ringtap_packet::checksum::{self, Sum};
use ringtap_packet::protocol;

/// The application of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// TCP from or to port 443.
    Https,
    /// TCP from or to port 80.
    Http,
    /// UDP from or to port 5004.
    Voice,
    /// UDP between high ports.
    Media,
}

impl Kind {
    /// Chooses the application: about 40 of 100 frames are HTTPS, 25 HTTP, 10 voice and 25 media.
    pub(super) fn choose(percent: u16) -> Self {
        match percent {
            0..40 => Self::Https,
            40..65 => Self::Http,
            65..75 => Self::Voice,
            _ => Self::Media,
        }
    }

    pub(super) fn is_udp(self) -> bool {
        matches!(self, Self::Voice | Self::Media)
    }

    fn service_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Voice => 5004,
            Self::Media => 40_000,
        }
    }

    fn protocol(self) -> u8 {
        if self.is_udp() {
            protocol::UDP
        } else {
            protocol::TCP
        }
    }

    fn transport_header(self) -> usize {
        if self.is_udp() { 8 } else { 20 }
    }
}

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TRANSPORT: usize = ETHERNET + IPV4;
/// The size of the sequence number in bytes.
const SEQUENCE: usize = 8;
/// The first source port of the clients.
const CLIENT_PORT: u16 = 49_152;

/// A buffer in which frames are made one after the other.
pub(super) struct Builder {
    frame: Vec<u8>,
    /// Payload bytes that reveal a shifted copy: their period is no multiple of a word.
    pattern: Vec<u8>,
}

impl Builder {
    pub(super) fn new() -> Self {
        let pattern = (0..=u16::MAX)
            .map(|at| at.wrapping_mul(31).to_le_bytes()[0] ^ at.to_le_bytes()[1])
            .collect();
        Self {
            frame: Vec::new(),
            pattern,
        }
    }

    /// Makes a frame of `size` bytes (64 at least) for one of 4,096 flows. Odd packets of a flow go
    /// from the client to the server, even ones come back.
    pub(super) fn build(&mut self, kind: Kind, size: u16, flow: u16, sequence: u64) -> &[u8] {
        let size = usize::from(size);
        self.frame.clear();
        self.frame.extend_from_slice(&self.pattern[..size]);
        let forward = sequence & 1 == 1;
        self.ethernet(forward);
        self.ipv4(kind, flow, forward, sequence);
        let payload = TRANSPORT + kind.transport_header();
        self.frame[payload..payload + SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
        self.transport(kind, flow, forward, sequence);
        &self.frame
    }

    fn ethernet(&mut self, forward: bool) {
        let (client, server) = ([0x02, 0, 0, 0, 0, 0x0c], [0x02, 0, 0, 0, 0, 0x05]);
        let (source, destination) = directed(forward, client, server);
        self.frame[..6].copy_from_slice(&destination);
        self.frame[6..12].copy_from_slice(&source);
        self.frame[12..ETHERNET].copy_from_slice(&[8, 0]);
    }

    fn ipv4(&mut self, kind: Kind, flow: u16, forward: bool, sequence: u64) {
        let [high, low] = flow.to_be_bytes();
        let (client, server) = ([10, 1, high, low], [192, 0, 2, low & 15]);
        let (source, destination) = directed(forward, client, server);
        let length = be16(self.frame.len() - ETHERNET);
        let [.., id_high, id_low] = sequence.to_be_bytes();
        let header = &mut self.frame[ETHERNET..TRANSPORT];
        header[..2].copy_from_slice(&[0x45, 0]);
        header[2..4].copy_from_slice(&length);
        header[4..6].copy_from_slice(&[id_high, id_low]);
        header[6..10].copy_from_slice(&[0x40, 0, 64, kind.protocol()]);
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&source);
        header[16..20].copy_from_slice(&destination);
        let checksum = checksum::of(header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    fn transport(&mut self, kind: Kind, flow: u16, forward: bool, sequence: u64) {
        let (client, server) = (CLIENT_PORT + flow, kind.service_port());
        let (source, destination) = directed(forward, client, server);
        let length = self.frame.len() - TRANSPORT;
        let (header, segment) = self.frame.split_at_mut(TRANSPORT);
        let addresses = header[ETHERNET + 12..].split_at(4);
        let pseudo = Sum::of_pseudo_header(addresses.0, addresses.1, kind.protocol(), length);
        segment[..2].copy_from_slice(&source.to_be_bytes());
        segment[2..4].copy_from_slice(&destination.to_be_bytes());
        let checksum_at = if kind.is_udp() {
            segment[4..6].copy_from_slice(&be16(length));
            6
        } else {
            let [_, _, _, _, number @ ..] = sequence.to_be_bytes();
            segment[4..8].copy_from_slice(&number);
            segment[8..12].copy_from_slice(&number);
            // A header of 20 bytes, the flags PSH and ACK, a window of 4096, no urgent data.
            segment[12..16].copy_from_slice(&[0x50, 0x18, 0x10, 0]);
            segment[18..20].fill(0);
            16
        };
        segment[checksum_at..checksum_at + 2].fill(0);
        let sum = pseudo.with(segment);
        let checksum = if kind.is_udp() {
            sum.udp_checksum()
        } else {
            sum.checksum()
        };
        segment[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Returns the source and the destination of a direction.
fn directed<T>(forward: bool, client: T, server: T) -> (T, T) {
    if forward {
        (client, server)
    } else {
        (server, client)
    }
}

/// Returns the sequence number of a synthetic frame; `None` for other traffic and for a frame cut
/// by the snaplen.
#[must_use]
pub fn sequence(frame: &[u8]) -> Option<u64> {
    let is_ours = frame.get(12..ETHERNET)? == [8, 0] && frame.get(6) == Some(&0x02);
    let header = match *frame.get(ETHERNET + 9)? {
        protocol::TCP => 20,
        protocol::UDP => 8,
        _ => return None,
    };
    let at = TRANSPORT + header;
    let number = frame.get(at..)?.first_chunk::<SEQUENCE>()?;
    is_ours.then(|| u64::from_be_bytes(*number))
}

/// Returns the low 16 bits of a length that is known to fit.
fn be16(value: usize) -> [u8; 2] {
    let [low, high, ..] = value.to_le_bytes();
    [high, low]
}
