//! The health of a TCP connection: segments sent again or out of order, repeated acknowledgments,
//! closed windows, resets, and times of the handshake and of the first response.
//!
//! The rules are in docs/reference/flow.md, "Health of TCP". State is 72 bytes a flow, so counters
//! that seldom grow have 16 bits and stop at 65,535.

use super::short::Short;
use crate::parse::Observation;
use crate::record::{TcpCounts, TcpMeasures};

pub(crate) const FIN: u16 = 0x01;
pub(crate) const SYN: u16 = 0x02;
pub(crate) const RST: u16 = 0x04;
pub(crate) const ACK: u16 = 0x10;

/// A segment that fills a gap within this time is late, not sent again; once the round trip is known,
/// that is the limit.
const REORDERING_NS: u64 = 3_000_000;

/// The state of a connection; index 0 is the initiator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tcp {
    ways: [Way; 2],
    /// The time of the packet that the present [`Phase`] waits for an answer to.
    mark_ns: u64,
    server_rtt: Short,
    client_rtt: Short,
    response: Short,
}

/// One direction, in 26 bytes: packed, since two of them would otherwise take 4 more.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
struct Way {
    /// The sequence number behind all data that was seen.
    expected: u32,
    /// The last acknowledgment.
    acknowledged: u32,
    /// Where the first gap in the data begins, if [`Way::GAP`] is set.
    gap: u32,
    retransmissions: u32,
    out_of_order: u16,
    duplicate_acks: u16,
    zero_windows: u16,
    /// The last window, unscaled.
    window: u16,
    resets: u8,
    bits: u8,
}

const _: () = assert!(size_of::<Tcp>() == 72);

/// How far the connection is: which packet comes next whose time is measured. It is in the upper bits
/// of the initiator's [`Way::bits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Phase {
    /// No SYN was seen.
    Unknown = 0,
    /// The initiator sent a SYN.
    Syn = 1,
    /// The other end answered it.
    Answered = 2,
    /// The initiator acknowledged the answer.
    Open = 3,
    /// The initiator sent data.
    Asked = 4,
    /// The other end sent data after that.
    Responded = 5,
}

impl Way {
    /// `expected` is known.
    const BEGUN: u8 = 1;
    /// `acknowledged` and `window` are known.
    const HAS_ACK: u8 = 2;
    /// Data is missing from `gap` on.
    const GAP: u8 = 4;
    /// The last segment was sent again: until new data comes, so are those that follow.
    const RESENDING: u8 = 8;
    /// The last segment was a keep-alive.
    const KEEP_ALIVE: u8 = 16;
    const PHASE_SHIFT: u32 = 5;

    const NEW: Self = Self {
        expected: 0,
        acknowledged: 0,
        gap: 0,
        retransmissions: 0,
        out_of_order: 0,
        duplicate_acks: 0,
        zero_windows: 0,
        window: 0,
        resets: 0,
        bits: 0,
    };

    fn has(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    fn set(&mut self, bit: u8, on: bool) {
        self.bits = self.bits & !bit | if on { bit } else { 0 };
    }

    /// Follows the sequence numbers. `pause_ns` is the time since the packet before in this
    /// direction; `reordering_ns` the time within which a segment that fills a gap was only late.
    fn follow(&mut self, packet: &Observation, pause_ns: u64, reordering_ns: u64) {
        let payload = packet.payload();
        let flags = packet.tcp_flags;
        let marks = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let length = payload.saturating_add(marks);
        let end = packet.sequence.wrapping_add(length);
        if !self.has(Self::BEGUN) {
            self.set(Self::BEGUN, true);
            self.expected = end;
            return;
        }
        let begins = packet.sequence.wrapping_sub(self.expected).cast_signed();
        let new = end.wrapping_sub(self.expected).cast_signed();
        self.set(Self::KEEP_ALIVE, false);
        if new > 0 {
            if begins > 0 && !self.has(Self::GAP) {
                self.gap = self.expected;
                self.set(Self::GAP, true);
            }
            if begins < 0 {
                // Its beginning was sent before: more data, or a FIN, was added to it.
                self.retransmissions = self.retransmissions.saturating_add(1);
                let reaches_gap = packet.sequence.wrapping_sub(self.gap).cast_signed() <= 0;
                self.set(Self::GAP, self.has(Self::GAP) && !reaches_gap);
            }
            self.set(Self::RESENDING, false);
            self.expected = end;
            return;
        }
        if payload <= 1 && marks == 0 && begins == -1 {
            self.set(Self::KEEP_ALIVE, true);
            return;
        }
        if length == 0 {
            return;
        }
        let fills = self.has(Self::GAP) && packet.sequence == self.gap;
        if fills && !self.has(Self::RESENDING) && pause_ns < reordering_ns {
            self.out_of_order = self.out_of_order.saturating_add(1);
        } else {
            self.retransmissions = self.retransmissions.saturating_add(1);
            self.set(Self::RESENDING, true);
        }
        if fills {
            self.gap = end;
            self.set(Self::GAP, end != self.expected);
        }
    }

    /// Looks at the acknowledgment and the window; `answers_keep_alive` if the last segment of the other
    /// direction was a keep-alive.
    fn acknowledge(&mut self, packet: &Observation, answers_keep_alive: bool) {
        let (acknowledgment, window) = (packet.acknowledgment, packet.window);
        let is_bare = packet.tcp_flags & (SYN | FIN) == 0;
        if is_bare && window == 0 {
            self.zero_windows = self.zero_windows.saturating_add(1);
        }
        if packet.tcp_flags & ACK == 0 {
            return;
        }
        let same = self.has(Self::HAS_ACK)
            && acknowledgment == self.acknowledged
            && window == self.window
            && window != 0;
        let at_end = packet.payload() == 0 && packet.sequence == self.expected;
        if same && is_bare && at_end && !answers_keep_alive {
            self.duplicate_acks = self.duplicate_acks.saturating_add(1);
        }
        self.acknowledged = acknowledgment;
        self.window = window;
        self.set(Self::HAS_ACK, true);
    }

    fn counts(&self) -> TcpCounts {
        TcpCounts {
            retransmissions: self.retransmissions,
            out_of_order: self.out_of_order.into(),
            duplicate_acks: self.duplicate_acks.into(),
            zero_windows: self.zero_windows.into(),
            resets: self.resets.into(),
        }
    }
}

impl Tcp {
    pub(crate) const NEW: Self = Self {
        ways: [Way::NEW; 2],
        mark_ns: 0,
        server_rtt: Short::UNKNOWN,
        client_rtt: Short::UNKNOWN,
        response: Short::UNKNOWN,
    };

    /// Returns a number of its last cache line, to load it.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.mark_ns
    }

    /// Measures a packet. `reverse` means that it is not the initiator's. `before_ns` is the time of the packet
    /// before in its direction, or 0.
    pub(crate) fn look(&mut self, packet: &Observation, reverse: bool, before_ns: u64) {
        let (this, other) = (usize::from(reverse), usize::from(!reverse));
        if packet.tcp_flags & RST != 0 {
            let way = &mut self.ways[this];
            way.resets = way.resets.saturating_add(1);
            return;
        }
        if packet.payload_at == 0 {
            // A fragment, or a header that was not captured: it has no numbers to follow.
            return;
        }
        let pause_ns = packet.time_ns.saturating_sub(before_ns);
        let reordering_ns = match (self.server_rtt.nanos(), self.client_rtt.nanos()) {
            (Some(server), Some(client)) => server.saturating_add(client),
            _ => REORDERING_NS,
        };
        let answers_keep_alive = self.ways[other].has(Way::KEEP_ALIVE);
        let way = &mut self.ways[this];
        // Before the sequence number goes on: a bare acknowledgment is behind all data.
        way.acknowledge(packet, answers_keep_alive);
        way.follow(packet, pause_ns, reordering_ns);
        self.time(packet, reverse);
    }

    /// Measures the times of the handshake and of the first response.
    fn time(&mut self, packet: &Observation, reverse: bool) {
        let phase = self.phase();
        if phase == Phase::Responded {
            return;
        }
        let now_ns = packet.time_ns;
        let since = Short::of(now_ns.saturating_sub(self.mark_ns));
        let (is_syn, is_ack) = (packet.tcp_flags & SYN != 0, packet.tcp_flags & ACK != 0);
        let begins = is_syn && !is_ack && !reverse && phase <= Phase::Syn;
        let next = match (is_syn, is_ack, reverse) {
            _ if begins => Phase::Syn,
            (true, true, true) if phase == Phase::Syn => {
                self.server_rtt = since;
                Phase::Answered
            }
            (false, true, false) if phase == Phase::Answered => {
                self.client_rtt = since;
                Phase::Open
            }
            _ => phase,
        };
        let has_data = !is_syn && packet.payload() > 0;
        let next = match (has_data, reverse) {
            (true, false) if next == Phase::Open => Phase::Asked,
            (true, true) if next == Phase::Asked => {
                self.response = since;
                Phase::Responded
            }
            _ => next,
        };
        // A SYN that is sent again is the one that is answered.
        if next != phase || begins {
            self.mark_ns = now_ns;
            self.set_phase(next);
        }
    }

    fn phase(&self) -> Phase {
        match self.ways[0].bits >> Way::PHASE_SHIFT {
            0 => Phase::Unknown,
            1 => Phase::Syn,
            2 => Phase::Answered,
            3 => Phase::Open,
            4 => Phase::Asked,
            _ => Phase::Responded,
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        let bits = &mut self.ways[0].bits;
        *bits = *bits & ((1 << Way::PHASE_SHIFT) - 1) | (phase as u8) << Way::PHASE_SHIFT;
    }

    pub(crate) fn measures(&self) -> TcpMeasures {
        TcpMeasures {
            forward: self.ways[0].counts(),
            reverse: self.ways[1].counts(),
            server_rtt_ns: self.server_rtt.nanos(),
            client_rtt_ns: self.client_rtt.nanos(),
        }
    }

    /// Returns the segments of both directions that were sent again.
    pub(crate) fn retransmissions(&self) -> u32 {
        let [forward, reverse] = &self.ways;
        forward
            .retransmissions
            .saturating_add(reverse.retransmissions)
    }

    /// Returns the time from the initiator's first data to the first data of the other end after it.
    pub(crate) fn response_ns(&self) -> Option<u64> {
        self.response.nanos()
    }
}
