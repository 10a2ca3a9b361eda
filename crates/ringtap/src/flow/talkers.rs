//! Top talkers: the hosts and flows with most traffic, by bytes and by packets.

use std::fmt::Write as _;
use std::net::IpAddr;

use ringtap_flow::{FlowKey, FlowRecord};
use ringtap_look::heavy::{Family, Heavy, HeavyKey, Row, Sum};

/// Hosts, and flows, that are summed up at a time.
const KEYS: usize = 16_384;

/// Sums over records, by host and by flow.
#[derive(Debug)]
pub(crate) struct Talkers {
    hosts: Heavy<IpAddr>,
    flows: Heavy<Conversation>,
    rows: usize,
}

/// The key of a row of flows: records with the same ends are one row, whatever timeout cut them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conversation {
    source: IpAddr,
    destination: IpAddr,
    source_port: u16,
    destination_port: u16,
    protocol: u8,
}

impl Talkers {
    /// Returns tables with this number of rows.
    pub(crate) fn new(rows: u16) -> Self {
        Self {
            hosts: Heavy::new(Family::new(KEYS)),
            flows: Heavy::new(Family::new(KEYS)),
            rows: rows.into(),
        }
    }

    pub(crate) fn count(&mut self, record: &FlowRecord) {
        let (key, bytes, packets) = (&record.key, record.bytes(), record.packets());
        let forward = record.forward.bytes;
        let sum = |sent| Sum {
            bytes,
            packets,
            sent,
            flows: 1,
        };
        self.hosts.add(key.source, &sum(forward));
        if key.destination != key.source {
            self.hosts.add(key.destination, &sum(bytes - forward));
        }
        self.flows.add(Conversation::of(key), &sum(forward));
    }

    /// Returns the tables as text, and resets all sums.
    pub(crate) fn take(&mut self) -> String {
        let mut text = String::new();
        let by_bytes: fn(&Sum) -> u64 = |sum| sum.bytes;
        let by_packets: fn(&Sum) -> u64 = |sum| sum.packets;
        for (what, measure) in [("bytes", by_bytes), ("packets", by_packets)] {
            self.hosts_table(&mut text, what, measure);
            self.flows_table(&mut text, what, measure);
        }
        let left_out = [
            (&self.hosts.left_out(), "hosts"),
            (&self.flows.left_out(), "flows"),
        ];
        for (count, what) in left_out.iter().filter(|(count, _)| **count > 0) {
            let _ = writeln!(text, "{count} {what} of little traffic were left out");
        }
        self.hosts.clear();
        self.flows.clear();
        text
    }

    fn hosts_table(&self, text: &mut String, what: &str, measure: fn(&Sum) -> u64) {
        let top = self.hosts.top(self.rows, measure);
        if top.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "{:<39} {:>15} {:>15} {:>12} {:>9}",
            format!("hosts by {what}"),
            "bytes sent",
            "received",
            "packets",
            "flows"
        );
        for Row { key: host, sum, .. } in top {
            let _ = writeln!(
                text,
                "{:<39} {:>15} {:>15} {:>12} {:>9}",
                host.to_string(),
                sum.sent,
                sum.bytes - sum.sent,
                sum.packets,
                sum.flows
            );
        }
        text.push('\n');
    }

    fn flows_table(&self, text: &mut String, what: &str, measure: fn(&Sum) -> u64) {
        let top = self.flows.top(self.rows, measure);
        if top.is_empty() {
            return;
        }
        let heading = format!("flows by {what}");
        let _ = writeln!(text, "{heading:<55} {:>15} {:>12}", "bytes", "packets");
        for Row { key: flow, sum, .. } in top {
            let name = flow.to_string();
            let _ = writeln!(text, "{name:<55} {:>15} {:>12}", sum.bytes, sum.packets);
        }
        text.push('\n');
    }
}

impl Conversation {
    fn of(key: &FlowKey) -> Self {
        Self {
            source: key.source,
            destination: key.destination,
            source_port: key.source_port,
            destination_port: key.destination_port,
            protocol: key.protocol,
        }
    }
}

/// Writes ends as tcpdump does: the port after a dot, the protocol before.
impl std::fmt::Display for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.protocol {
            1 => "icmp",
            6 => "tcp",
            17 => "udp",
            58 => "icmp6",
            132 => "sctp",
            _ => "",
        };
        if name.is_empty() {
            write!(f, "proto {} ", self.protocol)?;
        } else {
            write!(f, "{name} ")?;
        }
        if matches!(self.protocol, 6 | 17 | 33 | 132 | 136) {
            let (source, destination) = (self.source_port, self.destination_port);
            write!(
                f,
                "{}.{source} > {}.{destination}",
                self.source, self.destination
            )
        } else {
            write!(f, "{} > {}", self.source, self.destination)
        }
    }
}

impl HeavyKey for Conversation {
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
        let ports = u64::from(self.source_port) << 16 | u64::from(self.destination_port);
        let state = self.source.mix(state, &mix);
        let state = self.destination.mix(state, &mix);
        mix(state, ports << 8 | u64::from(self.protocol))
    }
}

#[cfg(test)]
mod tests {
    use ringtap_flow::Traffic;

    use super::*;

    fn record(source: [u8; 4], destination: [u8; 4], bytes: u64, packets: u64) -> FlowRecord {
        FlowRecord {
            key: FlowKey {
                source: source.into(),
                destination: destination.into(),
                source_port: 40_000,
                destination_port: 53,
                protocol: 17,
                ..FlowKey::default()
            },
            forward: Traffic {
                packets,
                bytes,
                ..Traffic::default()
            },
            ..FlowRecord::default()
        }
    }

    #[test]
    fn hosts_and_flows_are_summed_up_and_sorted() {
        let mut talkers = Talkers::new(1);
        talkers.count(&record([192, 0, 2, 1], [192, 0, 2, 9], 500, 1));
        talkers.count(&record([192, 0, 2, 1], [192, 0, 2, 9], 700, 2));
        talkers.count(&record([192, 0, 2, 2], [192, 0, 2, 8], 900, 9));
        let text = talkers.take();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .filter(|row: &Vec<&str>| !row.is_empty())
            .collect();
        assert_eq!(rows.len(), 8, "{text}");
        assert_eq!(rows[1][1..], ["1200", "0", "3", "2"]);
        let flow = ["udp", "192.0.2.1.40000", ">", "192.0.2.9.53", "1200", "3"];
        assert_eq!(rows[3], flow);
        assert_eq!(rows[5][1..], ["900", "0", "9", "1"]);
        assert!(talkers.take().is_empty());
    }
}
