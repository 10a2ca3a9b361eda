//! The numbers of a recorder as metrics, in the text format of OpenMetrics.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::status::{DeviceReport, Report};

/// Returns the metrics of a status.
pub(crate) fn text(status: Report) -> String {
    let mut registry = Registry::with_prefix("ringtap_recorder");
    registry.register_collector(Box::new(status));
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = encode(&mut text, &registry);
    text
}

type Result = std::result::Result<(), std::fmt::Error>;

#[expect(clippy::cast_precision_loss, reason = "numbers below 2 to the 53rd")]
fn number(value: u64) -> f64 {
    value as f64
}

impl Collector for Report {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        self.gauges(&mut encoder)?;
        self.counters(&mut encoder)?;
        self.of_devices(&mut encoder)?;
        self.losses(&mut encoder)
    }
}

impl Report {
    #[rustfmt::skip]
    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> Result {
        let running = f64::from(u8::from(self.running));
        let days = self.days.map(|days| days * 86_400.0);
        let gauges = [
            ("running", "Whether a recorder runs in the folder", None, Some(running)),
            ("start_time", "When it started, since 1970", Some(Unit::Seconds), Some(self.started)),
            ("update_time", "When these numbers were written, since 1970", Some(Unit::Seconds), Some(self.updated)),
            ("budget", "The most that the folder may take", Some(Unit::Bytes), Some(number(self.budget))),
            ("used", "What it takes, reserved room included", Some(Unit::Bytes), Some(number(self.bytes))),
            ("incidents", "What the copies of triggers take", Some(Unit::Bytes), Some(number(self.incident_bytes))),
            ("kept_files", "Files with packets", None, Some(number(self.files))),
            ("kept_chunks", "Chunks of packets", None, Some(number(self.chunks))),
            ("kept_packets", "Packets that are kept", None, Some(number(self.packets))),
            ("kept_cut_packets", "Packets that were cut while these files were written", None, Some(number(self.cut_packets))),
            ("kept_cut", "Bytes of them on the wire", Some(Unit::Bytes), Some(number(self.cut_bytes))),
            ("oldest_packet_time", "Time of the oldest packet, since 1970", Some(Unit::Seconds), self.oldest),
            ("newest_packet_time", "Time of the newest packet, since 1970", Some(Unit::Seconds), self.newest),
            ("reach", "How long the budget reaches at the rate of the packets that are kept", Some(Unit::Seconds), days),
        ];
        for (name, help, unit, value) in gauges {
            if let Some(value) = value {
                let encoder = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
                ConstGauge::new(value).encode(encoder)?;
            }
        }
        Ok(())
    }

    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> Result {
        for (name, help, value) in [
            (
                "removed_files",
                "Files that were removed",
                self.removed_files,
            ),
            (
                "unlisted_entries",
                "Entries that the catalogue does not have, because the disk took none",
                self.unlisted_entries,
            ),
            (
                "made_incidents",
                "Copies that triggers made",
                self.incidents,
            ),
            (
                "failed_incidents",
                "Copies of triggers that could not be made",
                self.failed_incidents,
            ),
            (
                "ignored_triggers",
                "Triggers that were not obeyed, because too many copies waited",
                self.ignored_triggers,
            ),
        ] {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(encoder)?;
        }
        Ok(())
    }

    /// Metrics of each device.
    #[rustfmt::skip]
    fn of_devices(&self, encoder: &mut DescriptorEncoder<'_>) -> Result {
        type Value = fn(&DeviceReport) -> Option<u64>;
        let counters: [(&str, &str, Option<Unit>, Value); 6] = [
            ("received_packets", "Packets that matched the filter", None, |one| one.received),
            ("recorded_packets", "Packets that were recorded", None, |one| Some(one.recorded)),
            ("recorded", "Captured bytes of packets", Some(Unit::Bytes), |one| Some(one.bytes)),
            ("cut_packets", "Packets that cut-offs left out", None, |one| Some(one.cut_packets)),
            ("cut", "Bytes of them on the wire", Some(Unit::Bytes), |one| Some(one.cut_bytes)),
            ("evicted_flows", "Flows that the table of cut-offs lost", None, |one| Some(one.evicted_flows)),
        ];
        for (name, help, unit, value) in counters {
            let mut encoder = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
            for (device, value) in self.devices.iter().filter_map(|one| Some((one, value(one)?))) {
                let labels = [("device", device.device.as_str())];
                ConstCounter::new(value).encode(encoder.encode_family(&labels)?)?;
            }
        }
        let gauges: [(&str, &str, Value); 3] = [
            ("failing", "Whether nothing is recorded, because the disk takes nothing", |one| Some(one.failure.is_some().into())),
            ("queue_chunks", "Chunks that wait for the disk", |one| Some(one.queue?.0)),
            ("queue_room_chunks", "Chunks for which there is memory", |one| Some(one.queue?.1)),
        ];
        for (name, help, value) in gauges {
            let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (device, value) in self.devices.iter().filter_map(|one| Some((one, value(one)?))) {
                let labels = [("device", device.device.as_str())];
                ConstGauge::new(number(value)).encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn losses(&self, encoder: &mut DescriptorEncoder<'_>) -> Result {
        let help = "Packets lost, by layer";
        let mut encoder =
            encoder.encode_descriptor("lost_packets", help, None, MetricType::Counter)?;
        for device in &self.devices {
            let dropped = device.dropped.by_key().into_iter();
            let dropped = dropped.filter_map(|(layer, count)| Some((layer, count?)));
            for (layer, count) in dropped.chain([("writer", device.dropped_by_writer)]) {
                let labels = [("device", device.device.as_str()), ("layer", layer)];
                ConstCounter::new(count).encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
