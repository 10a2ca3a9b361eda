//! Sends records to collectors. All UDP collectors share one encoder. Each TCP collector has its own encoder
//! in its own thread, because each connection is a new session.

mod batch;
mod clickhouse;
#[cfg(feature = "kafka")]
mod kafka;
mod queue;
mod tcp;
mod udp;

use std::io::{self, ErrorKind};
use std::sync::Arc;

use ringtap_flow::export::{Encoder, Statistics, Version};

use ringtap_flow::schema::Row;

use crate::places::Places;
use crate::{CollectorAddress, ExportReport, KafkaSettings, OutputError, OutputOptions};
pub(crate) use batch::Sums;
use clickhouse::ClickHouse;
pub use clickhouse::Spools;
use tcp::TcpExporter;
use udp::{Collectors, UdpCollector};

/// The collectors of a run.
pub(super) struct Exporters {
    /// The messages to all UDP collectors.
    encoder: Encoder,
    udp: Collectors,
    tcp: Vec<TcpExporter>,
    databases: Vec<ClickHouse>,
    #[cfg(feature = "kafka")]
    topics: Vec<kafka::Kafka>,
}

impl Exporters {
    /// Opens sockets. `name` is that of this probe.
    pub(super) fn open(
        collectors: &[CollectorAddress],
        options: &OutputOptions,
        places: &Arc<Places>,
        (name, spools, kafka): (&str, &mut Spools, &KafkaSettings),
    ) -> Result<Self, OutputError> {
        #[cfg(not(feature = "kafka"))]
        let _ = kafka;
        let mut exporters = Self {
            encoder: Encoder::new(options.export)?,
            udp: Collectors::default(),
            tcp: Vec::new(),
            databases: Vec::new(),
            #[cfg(feature = "kafka")]
            topics: Vec::new(),
        };
        for address in collectors {
            if address.0.clickhouse().is_some() {
                let database = ClickHouse::open(address, options, (name, &mut *spools))?;
                exporters.databases.push(database);
            } else if address.0.kafka().is_some() {
                #[cfg(feature = "kafka")]
                exporters
                    .topics
                    .push(kafka::Kafka::open(address, options, (name, kafka))?);
                #[cfg(not(feature = "kafka"))]
                return Err(OutputError::NoKafka {
                    address: address.to_string(),
                });
            } else if !address.0.is_tcp() {
                let collector = UdpCollector::open(address, options)?;
                exporters.udp.all.push(collector);
            } else if options.export.version == Version::Ipfix {
                exporters
                    .tcp
                    .push(TcpExporter::open(address, options, Arc::clone(places))?);
            } else {
                let address = address.to_string();
                return Err(OutputError::NotOverTcp { address });
            }
        }
        Ok(exporters)
    }

    pub(super) fn record(&mut self, row: &Row<'_>) {
        if !self.udp.all.is_empty() {
            self.encoder.row(row, &mut self.udp);
            self.teach_new();
        }
        for exporter in &mut self.tcp {
            exporter.record(row.record);
        }
        for database in &mut self.databases {
            database.record(row);
        }
        #[cfg(feature = "kafka")]
        for topic in &mut self.topics {
            topic.record(row);
        }
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        if !self.udp.all.is_empty() {
            self.encoder.advance(now_ns, &mut self.udp);
            self.udp.send_waiting();
            self.teach_new();
        }
        for exporter in &mut self.tcp {
            exporter.advance(now_ns);
        }
        self.databases.iter_mut().for_each(ClickHouse::advance);
    }

    /// Repeats templates when a collector has restarted, instead of waiting for the interval.
    fn teach_new(&mut self) {
        if self.udp.came_back() {
            self.encoder.announce_again();
        }
    }

    pub(super) fn set_statistics(&mut self, mut statistics: Statistics) {
        // An exporter sends the same statistics to all collectors: the losses of the collector that missed
        // most.
        let lost = self.udp.reports().map(|report| report.lost_flows);
        statistics.not_sent_flows = lost.max().unwrap_or(0);
        self.encoder.set_statistics(statistics);
        for exporter in &self.tcp {
            exporter.set_statistics(statistics);
        }
    }

    pub(super) fn finish(&mut self) {
        if !self.udp.all.is_empty() {
            self.encoder.finish(&mut self.udp);
        }
        self.udp.settle();
        for exporter in &mut self.tcp {
            exporter.finish();
        }
        self.databases.iter_mut().for_each(ClickHouse::finish);
        #[cfg(feature = "kafka")]
        self.topics.iter_mut().for_each(kafka::Kafka::finish);
    }

    /// Returns the counters of each collector.
    pub(super) fn report(&self) -> Vec<ExportReport> {
        let counters = self.encoder.counters();
        let udp = self.udp.reports().map(|report| ExportReport {
            not_expressible: counters.not_expressible,
            clamped: counters.clamped,
            ..report
        });
        let reports = udp
            .chain(self.tcp.iter().map(TcpExporter::report))
            .chain(self.databases.iter().map(ClickHouse::report));
        #[cfg(feature = "kafka")]
        let reports = reports.chain(self.topics.iter().map(kafka::Kafka::report));
        reports.collect()
    }
}

/// Reports that a collector cannot be reached: each kind of failure once, until another occurs.
struct Teller {
    collector: String,
    told: Option<ErrorKind>,
    notify: fn(&str),
}

impl Teller {
    fn new(collector: &CollectorAddress, options: &OutputOptions) -> Self {
        Self {
            collector: collector.to_string(),
            told: None,
            notify: options.notify,
        }
    }

    /// Returns a teller for another thread.
    fn again(&self) -> Self {
        Self {
            collector: self.collector.clone(),
            told: None,
            notify: self.notify,
        }
    }

    fn failed(&mut self, error: &io::Error, what_is_done: &str) {
        self.tell(error, &format!("lost records are counted{what_is_done}"));
    }

    /// Reports an error, unless the last one reported was of the same kind.
    fn tell(&mut self, error: &io::Error, consequence: &str) {
        if self.told.replace(error.kind()) != Some(error.kind()) {
            self.say(&format!("{error}; {consequence}"));
        }
    }

    fn say(&self, text: &str) {
        (self.notify)(&format!("{}: {text}", self.collector));
    }

    fn connected(&mut self) {
        if self.told.take().is_some() {
            (self.notify)(&format!("{}: connected", self.collector));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
    use std::time::Duration;

    use ringtap_flow::FlowRecord;
    use ringtap_flow::export::ExportOptions;

    use super::*;

    /// Templates come before the next flows, although the interval has not passed.
    #[test]
    fn a_collector_that_was_started_anew_is_taught() {
        let [_, high, middle, low] = (std::process::id() & 0xff_ffff).to_be_bytes();
        // An address that nobody else uses.
        let address = SocketAddr::from((Ipv4Addr::new(127, high, middle, low | 1), 12_055));
        let collector: CollectorAddress = format!("udp:{address}").parse().unwrap();
        let options = OutputOptions {
            export: ExportOptions::default().refresh(None).hold(Duration::ZERO),
            wait: true,
            ..OutputOptions::default()
        };
        let places = Arc::default();
        let mut exporters = Exporters::open(
            &[collector],
            &options,
            &places,
            ("", &mut Spools::default(), &KafkaSettings::default()),
        )
        .unwrap();
        let mut send = || {
            exporters.record(&Row::new(&FlowRecord::default()));
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
        // And not repeatedly; an answer to an earlier message may come late.
        let mut only_flows = || {
            send();
            let mut sets =
                std::iter::from_fn(|| socket.recv(&mut message).ok().map(|_| message[16]));
            sets.all(|set| set == 16)
        };
        assert!((0..20).any(|_| (0..10).all(|_| only_flows())));
    }
}
