//! The model as metrics of Prometheus, in the text form of OpenMetrics.
//!
//! Labels are layers, protocols and applications: their numbers are bounded. Hosts and flows are no labels.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::api::{Status, TopRow};
use crate::{Kind, Look, Measure, Window};

/// Protocols and applications with metrics of their own.
const CLASSES: usize = 64;

/// Returns the metrics of a model.
#[must_use]
pub fn metrics(look: &Look) -> String {
    let rows = |kind| look.top(kind, Window::All, Measure::Bytes, CLASSES).rows;
    let figures = Figures {
        status: look.status(),
        protocols: rows(Kind::Protocols),
        applications: rows(Kind::Applications),
        alerts: look.book.count(),
        unlisted: look.flow_table.unlisted(),
    };
    let mut registry = Registry::with_prefix("ringtap");
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Figures {
    status: Status,
    protocols: Vec<TopRow>,
    applications: Vec<TopRow>,
    alerts: u64,
    unlisted: u64,
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (name, help, unit, value) in self.counters() {
            if let Some(value) = value {
                let kind = MetricType::Counter;
                let encoder = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
                ConstCounter::new(value).encode(encoder)?;
            }
        }
        self.gauges(&mut encoder)?;
        self.families(&mut encoder)
    }
}

/// A metric: name, help, unit, and its value unless that is not known.
type Figure<T> = (&'static str, &'static str, Option<Unit>, Option<T>);

impl Figures {
    #[rustfmt::skip]
    fn counters(&self) -> [Figure<u64>; 12] {
        let Status { totals, tcp, dns, .. } = &self.status;
        [
            ("packets", "Packets that were metered", None, Some(totals.packets)),
            ("traffic", "Bytes of layer 3 of packets of IP", Some(Unit::Bytes), Some(totals.bytes)),
            ("flows", "Flows that began", None, Some(totals.flows)),
            ("not_ip_packets", "Packets without IP", None, Some(totals.not_ip)),
            ("malformed_packets", "Packets with a wrong header of IP", None, Some(totals.malformed)),
            ("tcp_retransmissions", "TCP packets whose data had been seen before", None, Some(tcp.retransmissions)),
            ("tcp_out_of_order_packets", "TCP packets out of order", None, tcp.out_of_order),
            ("tcp_zero_windows", "TCP packets with a window of zero", None, tcp.zero_windows),
            ("tcp_resets", "TCP connections with RST", None, Some(tcp.resets)),
            ("dns_queries", "Flows with a DNS question", None, dns.queries),
            ("dns_failures", "Flows whose DNS answer is an error", None, dns.failures),
            ("alerts", "Alerts that were raised", None, Some(self.alerts)),
        ]
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let totals = &self.status.totals;
        let seconds = |ns: Option<u64>| {
            #[expect(clippy::cast_precision_loss, reason = "a time of few digits")]
            ns.map(|ns| ns as f64 / 1e9)
        };
        #[expect(clippy::cast_precision_loss, reason = "numbers below 2 to the 53rd")]
        let gauges: [(&str, &str, Option<Unit>, Option<f64>); 5] = [
            (
                "active_flows",
                "Flows under way",
                None,
                Some(totals.active_flows as f64),
            ),
            (
                "hosts",
                "Hosts that are listed",
                None,
                Some(totals.hosts as f64),
            ),
            (
                "unlisted_flows",
                "Flows under way that left the list of flows, because it was full",
                None,
                Some(self.unlisted as f64),
            ),
            (
                "tcp_client_rtt",
                "Mean time from the probe to clients and back, of the last minute's handshakes",
                Some(Unit::Seconds),
                seconds(self.status.tcp.client_rtt_ns),
            ),
            (
                "tcp_server_rtt",
                "Mean time from the probe to servers and back, of the last minute's handshakes",
                Some(Unit::Seconds),
                seconds(self.status.tcp.server_rtt_ns),
            ),
        ];
        for (name, help, unit, value) in gauges {
            if let Some(value) = value {
                let encoder =
                    encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
                ConstGauge::new(value).encode(encoder)?;
            }
        }
        Ok(())
    }

    /// Counters with labels.
    fn families(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let losses = self.status.losses.iter();
        let losses = losses.filter_map(|loss| Some((loss.layer.to_owned(), loss.packets?)));
        let labelled = |rows: &[TopRow], count: fn(&TopRow) -> u64| -> Vec<(String, u64)> {
            rows.iter()
                .map(|row| (row.key.clone(), count(row)))
                .collect()
        };
        let bytes = |rows: &[TopRow]| labelled(rows, |row| row.bytes);
        let packets = |rows: &[TopRow]| labelled(rows, |row| row.packets);
        let families = [
            (
                "lost_packets",
                "Packets lost, by layer",
                "layer",
                None,
                losses.collect(),
            ),
            (
                "protocol_traffic",
                "Bytes of layer 3, by protocol above IP",
                "protocol",
                Some(Unit::Bytes),
                bytes(&self.protocols),
            ),
            (
                "protocol_packets",
                "Packets, by protocol above IP",
                "protocol",
                None,
                packets(&self.protocols),
            ),
            (
                "application_traffic",
                "Bytes of layer 3, by application",
                "application",
                Some(Unit::Bytes),
                bytes(&self.applications),
            ),
            (
                "application_packets",
                "Packets, by application",
                "application",
                None,
                packets(&self.applications),
            ),
        ];
        for (name, help, label, unit, values) in families {
            let mut encoder =
                encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
            for (value, count) in values {
                let labels = [(label, value.as_str())];
                let encoder = encoder.encode_family(&labels)?;
                ConstCounter::new(count).encode(encoder)?;
            }
        }
        Ok(())
    }
}
