//! Top talkers: the hosts, processes and flows with most traffic, by bytes and by packets.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringtap_flow::{Entry, FlowRecord};
use ringtap_look::heavy::{Family, Heavy, Row, Sum};

use super::labels::{Labels, name};

/// Hosts, and flows, that the tables hold.
const KEYS: usize = 16_384;

/// Sums over records, by host, by process and by flow.
#[derive(Debug)]
pub(crate) struct Talkers {
    /// By address and the bit of its version.
    hosts: Heavy<[u64; 3]>,
    /// By the words of [`Conversation::of`].
    flows: Heavy<[u64; 5]>,
    /// By number and start.
    processes: Heavy<[u64; 2]>,
    host_names: Labels<IpAddr>,
    process_names: Labels<[u64; 2]>,
    flow_names: Labels<Conversation>,
    rows: usize,
}

/// The key of a row of flows: records with the same ends are one row, whatever timeout cut them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
            processes: Heavy::new(Family::new(KEYS)),
            host_names: Labels::new(),
            process_names: Labels::new(),
            flow_names: Labels::new(),
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
        let (source, source_six) = words(key.source);
        let (destination, destination_six) = words(key.destination);
        let host = |[high, low]: [u64; 2], six| [high, low, six];
        self.hosts.add(host(source, source_six), &sum(forward));
        if key.destination != key.source {
            let received = sum(bytes - forward);
            self.hosts
                .add(host(destination, destination_six), &received);
        }
        let ports = u64::from(key.source_port) << 32 | u64::from(key.destination_port) << 16;
        let rest = ports | u64::from(key.protocol) << 8 | source_six << 1 | destination_six;
        let ([a, b], [c, d]) = (source, destination);
        self.flows.add([a, b, c, d, rest], &sum(forward));
        self.count_processes(record);
        if let Some(application) = &record.application {
            self.add_names(record, application, [a, b, c, d, rest]);
        }
    }

    /// Counts a record for the processes at its ends, once if they are the same.
    fn count_processes(&mut self, record: &FlowRecord) {
        let (bytes, packets) = (record.bytes(), record.packets());
        let forward = record.forward.bytes;
        for (process, sent) in record.processes(forward, bytes - forward) {
            let key = process.key();
            let sum = Sum {
                bytes,
                packets,
                sent,
                flows: 1,
            };
            self.processes.add(key, &sum);
            self.process_names.add(key, &process.name);
        }
    }

    /// Remembers the names of a record's host and flow.
    fn add_names(&mut self, record: &FlowRecord, application: &Entry, flow: [u64; 5]) {
        let fields = application.fields();
        if let Some((host, name)) = name(record, &fields) {
            self.host_names.add(host, name);
        }
        if let Some(name) = fields.name {
            self.flow_names.add(Conversation::of(flow), name.as_str());
        }
    }

    /// Returns the tables as text, and resets all sums.
    pub(crate) fn take(&mut self) -> String {
        self.hosts.settle();
        self.processes.settle();
        self.flows.settle();
        let mut text = String::new();
        let by_bytes: fn(&Sum) -> u64 = |sum| sum.bytes;
        let by_packets: fn(&Sum) -> u64 = |sum| sum.packets;
        for (what, measure) in [("bytes", by_bytes), ("packets", by_packets)] {
            self.hosts_table(&mut text, what, measure);
            self.processes_table(&mut text, what, measure);
            self.flows_table(&mut text, what, measure);
        }
        let left_out = [
            (&self.hosts.left_out(), "hosts"),
            (&self.processes.left_out(), "processes"),
            (&self.flows.left_out(), "flows"),
        ];
        for (count, what) in left_out.iter().filter(|(count, _)| **count > 0) {
            let _ = writeln!(text, "{count} {what} of little traffic were left out");
        }
        self.hosts.clear();
        self.processes.clear();
        self.flows.clear();
        self.host_names.clear();
        self.process_names.clear();
        self.flow_names.clear();
        text
    }

    fn hosts_table(&self, text: &mut String, what: &str, measure: fn(&Sum) -> u64) {
        let heading = heading(&format!("hosts by {what}"));
        let top = self.hosts.top(self.rows, measure);
        table(text, &heading, &top, |Row { key, sum, .. }| {
            let [high, low, six] = *key;
            let host = address([high, low], six);
            row(&host.to_string(), sum, &self.host_names.behind(&host))
        });
    }

    fn processes_table(&self, text: &mut String, what: &str, measure: fn(&Sum) -> u64) {
        let heading = heading(&format!("processes by {what}"));
        let top = self.processes.top(self.rows, measure);
        table(text, &heading, &top, |Row { key, sum, .. }| {
            let name = self.process_names.behind(key);
            row(&format!("{}:{}", name.trim_start(), key[0]), sum, "")
        });
    }

    fn flows_table(&self, text: &mut String, what: &str, measure: fn(&Sum) -> u64) {
        let heading = format!("flows by {what}");
        let heading = format!("{heading:<55} {:>15} {:>12}", "bytes", "packets");
        let top = self.flows.top(self.rows, measure);
        table(text, &heading, &top, |Row { key, sum, .. }| {
            let flow = Conversation::of(*key);
            let (name, label) = (flow.to_string(), self.flow_names.behind(&flow));
            format!("{name:<55} {:>15} {:>12}{label}", sum.bytes, sum.packets)
        });
    }
}

/// Adds a table, if it has rows.
fn table<K>(text: &mut String, heading: &str, rows: &[Row<K>], line: impl Fn(&Row<K>) -> String) {
    if rows.is_empty() {
        return;
    }
    let lines = rows.iter().map(line);
    for line in std::iter::once(heading.to_owned()).chain(lines) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
}

impl Conversation {
    /// Takes the words apart that [`Talkers::count`] makes.
    fn of([a, b, c, d, rest]: [u64; 5]) -> Self {
        let port = |shift: u32| u16::try_from(rest >> shift & 0xffff).unwrap_or(0);
        Self {
            source: address([a, b], rest >> 1 & 1),
            destination: address([c, d], rest & 1),
            source_port: port(32),
            destination_port: port(16),
            protocol: u8::try_from(rest >> 8 & 0xff).unwrap_or(0),
        }
    }
}

/// Returns an address as two words, the first one of which is 0 for IPv4, and the bit of its version.
#[inline(always)]
fn words(address: IpAddr) -> ([u64; 2], u64) {
    match address {
        IpAddr::V4(address) => ([0, u64::from(address.to_bits())], 0),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            #[expect(clippy::cast_possible_truncation, reason = "both halves are kept")]
            let words = [(bits >> 64) as u64, bits as u64];
            (words, 1)
        }
    }
}

/// Returns the address of [`words`].
fn address([high, low]: [u64; 2], six: u64) -> IpAddr {
    if six == 0 {
        return Ipv4Addr::from_bits(u32::try_from(low).unwrap_or(0)).into();
    }
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into()
}

/// Returns the heading of a table whose rows have two directions.
fn heading(what: &str) -> String {
    let (sent, received) = ("bytes sent", "received");
    format!(
        "{what:<39} {sent:>15} {received:>15} {:>12} {:>9}",
        "packets", "flows"
    )
}

/// Returns a row of such a table.
fn row(name: &str, sum: &Sum, label: &str) -> String {
    let received = sum.bytes - sum.sent;
    format!(
        "{name:<39} {:>15} {received:>15} {:>12} {:>9}{label}",
        sum.sent, sum.packets, sum.flows
    )
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

#[cfg(test)]
mod tests {
    use ringtap_flow::{FlowKey, Traffic};

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
