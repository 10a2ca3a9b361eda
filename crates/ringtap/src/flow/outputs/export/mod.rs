//! Collectors: their names on the command line, and one encoder for all that are reached by UDP; one
//! of its own, in a thread of its own, for each that is reached by TCP, whose sessions begin anew
//! with each connection.

mod queue;
mod tcp;
mod udp;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use ringtap_flow::FlowRecord;
use ringtap_flow::export::{Encoder, ExportOptions, Message, Statistics, Version};

use super::OutputError;
use super::report::ExportReport;
use tcp::TcpExporter;
use udp::UdpCollector;

/// Whether to wait where an output is slower than the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Wait: the input is a file.
    Wait,
    /// Lose and count: packets don't wait.
    Lose,
}

/// A collector as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collector {
    transport: Transport,
    /// HOST:PORT.
    host: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

/// Why a collector cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectorError {
    /// It is not the name of a collector.
    #[error(
        "expected udp:HOST:PORT or tcp:HOST:PORT, such as udp:192.0.2.1:2055 or tcp:[2001:db8::1]:4739"
    )]
    Name,
    /// Only IPFIX goes over TCP.
    #[error("{collector}: only IPFIX goes over TCP (--version ipfix)")]
    NotOverTcp { collector: String },
    /// Its name means nothing.
    #[error("{collector}: {source}")]
    Resolve {
        collector: String,
        r#source: io::Error,
    },
    /// No socket could be made.
    #[error("{collector}: cannot {what}: {source}")]
    Socket {
        collector: String,
        what: &'static str,
        r#source: io::Error,
    },
}

impl CollectorError {
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Name | Self::NotOverTcp { .. })
    }
}

impl FromStr for Collector {
    type Err = CollectorError;

    fn from_str(text: &str) -> Result<Self, CollectorError> {
        let (transport, host) = match text.split_once(':') {
            Some(("udp", host)) => (Transport::Udp, host),
            Some(("tcp", host)) => (Transport::Tcp, host),
            _ => return Err(CollectorError::Name),
        };
        let (name, port) = host.rsplit_once(':').ok_or(CollectorError::Name)?;
        let port: u16 = port.parse().map_err(|_| CollectorError::Name)?;
        // An address of IPv6 has its brackets, so that its last group is not taken for a port.
        let ambiguous = name.contains(':') && !(name.starts_with('[') && name.ends_with(']'));
        if name.is_empty() || port == 0 || ambiguous {
            return Err(CollectorError::Name);
        }
        Ok(Self {
            transport,
            host: host.to_owned(),
        })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        write!(f, "{transport}:{}", self.host)
    }
}

impl Collector {
    /// Its first address.
    fn address(&self) -> Result<SocketAddr, CollectorError> {
        let failed = |source| CollectorError::Resolve {
            collector: self.to_string(),
            source,
        };
        let mut addresses = self.host.to_socket_addrs().map_err(failed)?;
        let none = || failed(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
        addresses.next().ok_or_else(none)
    }

    fn socket_error(&self, what: &'static str, source: io::Error) -> CollectorError {
        CollectorError::Socket {
            collector: self.to_string(),
            what,
            source,
        }
    }
}

/// The collectors of a run.
pub(crate) struct Exporters {
    /// What is sent to all collectors that are reached by UDP.
    encoder: Encoder,
    udp: Vec<UdpCollector>,
    tcp: Vec<TcpExporter>,
}

impl Exporters {
    pub(crate) fn open(
        collectors: &[Collector],
        options: ExportOptions,
        patience: Patience,
    ) -> Result<Self, OutputError> {
        let mut exporters = Self {
            encoder: Encoder::new(options)?,
            udp: Vec::new(),
            tcp: Vec::new(),
        };
        for collector in collectors {
            match collector.transport {
                Transport::Udp => exporters.udp.push(UdpCollector::open(collector, patience)?),
                Transport::Tcp if options.version != Version::Ipfix => {
                    let collector = collector.to_string();
                    return Err(CollectorError::NotOverTcp { collector }.into());
                }
                Transport::Tcp => {
                    let exporter = TcpExporter::open(collector, options, patience)?;
                    exporters.tcp.push(exporter);
                }
            }
        }
        Ok(exporters)
    }

    pub(crate) fn record(&mut self, record: &FlowRecord) {
        if !self.udp.is_empty() {
            let udp = &mut self.udp;
            self.encoder
                .record(record, &mut |message: Message<'_>| send(udp, &message));
            self.teach_new();
        }
        for exporter in &mut self.tcp {
            exporter.record(record);
        }
    }

    pub(crate) fn advance(&mut self, now_ns: u64) {
        if !self.udp.is_empty() {
            let udp = &mut self.udp;
            self.encoder
                .advance(now_ns, &mut |message: Message<'_>| send(udp, &message));
            self.teach_new();
        }
        for exporter in &mut self.tcp {
            exporter.advance(now_ns);
        }
    }

    /// Has templates repeated where a collector was started anew, instead of when their time comes.
    fn teach_new(&mut self) {
        let came_back = |any, collector: &mut UdpCollector| collector.came_back() || any;
        if self.udp.iter_mut().fold(false, came_back) {
            self.encoder.announce_again();
        }
    }

    pub(crate) fn set_statistics(&mut self, mut statistics: Statistics) {
        // One exporter tells all collectors the same: what the worst served of them has missed.
        let lost = self
            .udp
            .iter()
            .map(|collector| collector.report().lost_flows);
        statistics.not_sent_flows = lost.max().unwrap_or(0);
        self.encoder.set_statistics(statistics);
        for exporter in &self.tcp {
            exporter.set_statistics(statistics);
        }
    }

    pub(crate) fn finish(&mut self) {
        if !self.udp.is_empty() {
            let udp = &mut self.udp;
            self.encoder
                .finish(&mut |message: Message<'_>| send(udp, &message));
        }
        for collector in &mut self.udp {
            collector.settle();
        }
        for exporter in &mut self.tcp {
            exporter.finish();
        }
    }

    /// What became of the records, per collector.
    pub(crate) fn report(&self) -> Vec<ExportReport> {
        let counters = self.encoder.counters();
        let udp = self.udp.iter().map(|collector| ExportReport {
            not_expressible: counters.not_expressible,
            clamped: counters.clamped,
            ..collector.report()
        });
        udp.chain(self.tcp.iter().map(TcpExporter::report))
            .collect()
    }
}

fn send(collectors: &mut [UdpCollector], message: &Message<'_>) {
    for collector in collectors {
        collector.send(message);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

    use super::*;

    /// Templates come before the next flows, though the time to repeat them is far.
    #[test]
    fn a_collector_that_was_started_anew_is_taught() {
        let [_, high, middle, low] = (std::process::id() & 0xff_ffff).to_be_bytes();
        // An address that nobody else uses.
        let address = SocketAddr::from((Ipv4Addr::new(127, high, middle, low | 1), 12_055));
        let collector: Collector = format!("udp:{address}").parse().unwrap();
        let options = ExportOptions {
            refresh: None,
            hold: Duration::ZERO,
            ..ExportOptions::default()
        };
        let mut exporters = Exporters::open(&[collector], options, Patience::Wait).unwrap();
        let mut send = || {
            exporters.record(&FlowRecord::default());
            exporters.advance(1);
            exporters.report()[0].lost_flows
        };
        let refused = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            send() > 0
        });
        assert!(refused);
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut message = [0; 2000];
        let taught = (0..100).any(|_| {
            send();
            let mut sets =
                std::iter::from_fn(|| socket.recv(&mut message).ok().map(|_| message[17]));
            // A set of templates has the number 2.
            sets.any(|set| set == 2)
        });
        assert!(taught);
        // And not again and again; an answer to what was sent before may come late.
        let mut only_flows = || {
            send();
            let mut sets =
                std::iter::from_fn(|| socket.recv(&mut message).ok().map(|_| message[16]));
            sets.all(|set| set == 16)
        };
        assert!((0..20).any(|_| (0..10).all(|_| only_flows())));
    }

    #[test]
    fn names_of_collectors() {
        for good in [
            "udp:127.0.0.1:2055",
            "tcp:collector.example:4739",
            "udp:[::1]:9995",
        ] {
            let collector: Collector = good.parse().unwrap();
            assert_eq!(collector.to_string(), good);
        }
        for bad in [
            "",
            "127.0.0.1:2055",
            "udp:127.0.0.1",
            "udp::2055",
            "udp:127.0.0.1:0",
            "udp:127.0.0.1:65536",
            "udp:::1:2055",
            "sctp:127.0.0.1:4739",
        ] {
            assert!(bad.parse::<Collector>().is_err(), "{bad}");
        }
    }
}
