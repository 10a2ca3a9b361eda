//! Filters of the pcap-filter language on flows.
//!
//! A flow is put as the headers that its packets have, one packet for each direction that was seen, and a
//! filter that accepts one of them accepts the flow. Tests of what headers do not have in common see the
//! flow's values: its greatest length, the union of its TCP flags. The payload is empty.

use std::net::IpAddr;

use ringtap_filter::{CompileError, CompileOptions, Program, Tables, compile};
use ringtap_flow::{FlowKey, FlowRecord, MacAddresses, Traffic};
use ringtap_packet::{LinkType, ether_type, protocol};

/// A filter on flows.
#[derive(Clone, Debug, Default)]
pub struct FlowFilter {
    program: Option<Program>,
}

impl FlowFilter {
    /// Compiles an expression. Names of hosts and networks are not looked up; those of ports and
    /// protocols are the ones of `/etc/services` and `/etc/protocols` that `files` read.
    ///
    /// # Errors
    /// The expression is invalid.
    pub fn new(expression: &str, tables: &Tables) -> Result<Self, CompileError> {
        if expression.trim().is_empty() {
            return Ok(Self { program: None });
        }
        let mut options = CompileOptions::new(LinkType::ETHERNET);
        // An expression that accepts nothing is one that lists nothing.
        options.optimize = false;
        options.extensions = true;
        let program = compile(expression, &options, tables)?;
        Ok(Self {
            program: Some(program),
        })
    }

    /// Returns whether one of the flow's packets matches.
    #[must_use]
    pub fn accepts(&self, record: &FlowRecord) -> bool {
        let Some(program) = &self.program else {
            return true;
        };
        let macs = record.macs.unwrap_or_default();
        let mut frame = Frame::new();
        let length = frame.build(&record.key, macs, &record.forward);
        if program.run(frame.bytes(), length) > 0 {
            return true;
        }
        let Some(reverse) = &record.reverse else {
            return false;
        };
        let mut key = record.key;
        std::mem::swap(&mut key.source, &mut key.destination);
        if crate::label::has_ports(key.protocol) {
            std::mem::swap(&mut key.source_port, &mut key.destination_port);
        }
        let macs = MacAddresses {
            source: macs.destination,
            destination: macs.source,
        };
        let length = frame.build(&key, macs, reverse);
        program.run(frame.bytes(), length) > 0
    }
}

/// The longest headers: Ethernet with two tags, IPv6, TCP.
const ROOM: usize = 22 + 40 + 20;

/// Headers of a packet.
struct Frame {
    room: [u8; ROOM],
    used: usize,
}

impl Frame {
    fn new() -> Self {
        Self {
            room: [0; ROOM],
            used: 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.room[..self.used]
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        if let Some(room) = self.room.get_mut(self.used..end) {
            room.copy_from_slice(bytes);
            self.used = end;
        }
    }

    /// Builds the frame; returns its length on the wire.
    fn build(&mut self, key: &FlowKey, macs: MacAddresses, traffic: &Traffic) -> u32 {
        self.used = 0;
        self.put(&macs.destination);
        self.put(&macs.source);
        for (tag, identifier) in [
            (
                key.inner_vlan
                    .map_or(ether_type::VLAN, |_| ether_type::QINQ),
                key.vlan,
            ),
            (ether_type::VLAN, key.inner_vlan),
        ] {
            if let Some(identifier) = identifier {
                self.put(&tag.to_be_bytes());
                self.put(&identifier.to_be_bytes());
            }
        }
        let length = traffic.max_length;
        match (key.source, key.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.put(&ether_type::IPV4.to_be_bytes());
                self.put(&[0x45, key.tos]);
                self.put(&length.to_be_bytes());
                self.put(&[0, 0, 0, 0, traffic.max_ttl, key.protocol, 0, 0]);
                self.put(&source.octets());
                self.put(&destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                self.put(&ether_type::IPV6.to_be_bytes());
                self.put(&[0x60 | key.tos >> 4, key.tos << 4, 0, 0]);
                self.put(&length.saturating_sub(40).to_be_bytes());
                self.put(&[key.protocol, traffic.max_ttl]);
                self.put(&source.octets());
                self.put(&destination.octets());
            }
            _ => {}
        }
        let link = u32::try_from(self.used).unwrap_or(0);
        self.transport(key, traffic);
        link.saturating_add(u32::from(length)).max(link)
    }

    fn transport(&mut self, key: &FlowKey, traffic: &Traffic) {
        let destination = key.destination_port.to_be_bytes();
        match key.protocol {
            protocol::ICMP | protocol::ICMPV6 => {
                // Type and code.
                self.put(&destination);
                self.put(&[0; 6]);
            }
            number if crate::label::has_ports(number) => {
                self.put(&key.source_port.to_be_bytes());
                self.put(&destination);
                let [high, low] = traffic.tcp_flags.to_be_bytes();
                if number == protocol::TCP {
                    self.put(&[0; 8]);
                    self.put(&[0x50 | high & 0x0f, low, 0, 0, 0, 0, 0, 0]);
                } else {
                    self.put(&[0; 8]);
                }
            }
            _ => self.put(&[0; 8]),
        }
    }
}
