//! Measurements of TCP connections: retransmitted data, and times of the handshake.

use super::slot::{Tcp, UNKNOWN};
use crate::parse::Observation;
use crate::record::TcpMeasures;

pub(crate) const FIN: u16 = 0x01;
pub(crate) const SYN: u16 = 0x02;
pub(crate) const RST: u16 = 0x04;
pub(crate) const ACK: u16 = 0x10;

impl Tcp {
    /// Measures a packet. `reverse` means that it is not the initiator's.
    pub(crate) fn look(&mut self, packet: &Observation, reverse: bool) {
        let flags = packet.tcp_flags;
        if flags & RST != 0 {
            return;
        }
        self.follow(packet, usize::from(reverse));
        match (flags & SYN != 0, flags & ACK != 0, reverse) {
            (true, false, false) if self.answer_ns == UNKNOWN => self.syn_ns = packet.time_ns,
            (true, true, true) if self.syn_ns != UNKNOWN && self.answer_ns == UNKNOWN => {
                self.answer_ns = packet.time_ns;
                self.server_rtt_ns = packet.time_ns.saturating_sub(self.syn_ns);
            }
            (false, true, false) if self.answer_ns != UNKNOWN && self.client_rtt_ns == UNKNOWN => {
                self.client_rtt_ns = packet.time_ns.saturating_sub(self.answer_ns);
            }
            _ => {}
        }
    }

    /// Follows the sequence numbers of one direction. Data without anything new is a retransmission. A single
    /// byte before the expected number is a keep-alive and not counted.
    fn follow(&mut self, packet: &Observation, direction: usize) {
        let marks = u32::from(packet.tcp_flags & SYN != 0) + u32::from(packet.tcp_flags & FIN != 0);
        let length = packet.payload().saturating_add(marks);
        let end = packet.sequence.wrapping_add(length);
        if !self.begun[direction] {
            self.begun[direction] = true;
            self.expected[direction] = end;
            return;
        }
        let new = end.wrapping_sub(self.expected[direction]).cast_signed();
        if new > 0 {
            self.expected[direction] = end;
            return;
        }
        let keep_alive = packet.payload() <= 1 && marks == 0 && new == 0;
        if length > 0 && !keep_alive {
            self.retransmissions[direction] = self.retransmissions[direction].saturating_add(1);
        }
    }

    pub(crate) fn measures(&self) -> TcpMeasures {
        let known = |time: u64| (time != UNKNOWN).then_some(time);
        TcpMeasures {
            retransmissions: self.retransmissions[0],
            reverse_retransmissions: self.retransmissions[1],
            server_rtt_ns: known(self.server_rtt_ns),
            client_rtt_ns: known(self.client_rtt_ns),
        }
    }
}
