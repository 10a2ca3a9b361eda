//! Sends records to a topic of Apache Kafka, each as a message, by librdkafka.
//!
//! The producer is idempotent: a message that is sent again, because its acknowledgment was lost, is in the topic once,
//! and messages of a flow keep their order. Messages wait in the library's bounded queue; those that find no room, or that
//! the brokers do not take in time, are lost and counted. The key is the same for both directions of a flow, so that they
//! meet in one partition.
//!
//! The library is C, chosen because no client in Rust is idempotent and has all of Kafka's compressions.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use ringtap_flow::FlowKey;
use ringtap_flow::schema::{Field, Fields, Row, SCHEMA_VERSION, address_bytes};

use super::Teller;
use crate::file::write_json;
use crate::protobuf::Protobuf;
use crate::{
    CollectorAddress, ExportReport, KafkaSettings, MessageForm, OutputError, OutputOptions,
};

/// How long brokers may be away before messages count as lost, in milliseconds.
const DELIVERY: &str = "300000";
/// How long the end of a run waits for acknowledgments.
const REST: Duration = Duration::from_secs(10);
/// How long a run on a file waits before it tries a full queue again.
const PAUSE: Duration = Duration::from_millis(20);
/// The settings of the library, beside the brokers.
const SETTINGS: [(&str, &str); 8] = [
    ("enable.idempotence", "true"),
    ("compression.type", "zstd"),
    ("linger.ms", "100"),
    ("batch.size", "1000000"),
    ("queue.buffering.max.messages", "200000"),
    ("queue.buffering.max.kbytes", "65536"),
    ("message.timeout.ms", DELIVERY),
    // As Java's clients choose the partition of a key.
    ("partitioner", "murmur2_random"),
];

/// A topic that takes records.
pub(super) struct Kafka {
    producer: ThreadedProducer<Context>,
    counts: Arc<Counts>,
    topic: String,
    name: String,
    exporter: String,
    form: Form,
    message: Vec<u8>,
    wait: bool,
}

/// How messages are written.
enum Form {
    Json(Vec<&'static Field>),
    Protobuf(Protobuf),
}

impl Form {
    fn new(options: &OutputOptions) -> Self {
        let fields = options.export.fields;
        match options.form {
            MessageForm::Json => Self::Json(fields.with(Fields::BASIC).columns().collect()),
            MessageForm::Protobuf => Self::Protobuf(Protobuf::new(fields)),
        }
    }
}

#[derive(Default)]
struct Counts {
    queued: AtomicU64,
    delivered: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    no_room: AtomicU64,
}

/// Takes what the library reports, on its own thread.
struct Context {
    counts: Arc<Counts>,
    teller: Mutex<Teller>,
}

impl ClientContext for Context {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let error = std::io::Error::other(format!("{error}: {reason}"));
        let mut teller = self.teller.lock().unwrap_or_else(PoisonError::into_inner);
        teller.failed(&error, "; it is tried again");
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(message) => {
                let bytes = message.payload().map_or(0, <[u8]>::len) as u64;
                self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
                self.counts.delivered.fetch_add(1, Ordering::Relaxed);
                let mut teller = self.teller.lock().unwrap_or_else(PoisonError::into_inner);
                teller.connected();
            }
            Err(_) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Kafka {
    pub(super) fn open(
        address: &CollectorAddress,
        options: &OutputOptions,
        (exporter, settings): (&str, &KafkaSettings),
    ) -> Result<Self, OutputError> {
        let (brokers, topic) = address.0.kafka().ok_or(OutputError::CollectorAddress)?;
        let counts = Arc::new(Counts::default());
        let context = Context {
            counts: Arc::clone(&counts),
            teller: Mutex::new(Teller::new(address, options)),
        };
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers);
        for (name, value) in SETTINGS.into_iter().chain(settings.iter()) {
            config.set(name, value);
        }
        let producer = config.create_with_context(context);
        let failed = |error: KafkaError| {
            // Without the value, which may be a password.
            let error = match error {
                KafkaError::ClientConfig(_, problem, name, value) if !value.is_empty() => {
                    let problem = problem.replace(&value, "…");
                    std::io::Error::other(format!("{name}: {problem}"))
                }
                error => std::io::Error::other(error),
            };
            address.0.failed("start a producer")(error)
        };
        Ok(Self {
            producer: producer.map_err(failed)?,
            counts,
            topic: topic.to_owned(),
            name: address.to_string(),
            exporter: exporter.to_owned(),
            form: Form::new(options),
            message: Vec::new(),
            wait: options.wait,
        })
    }

    pub(super) fn record(&mut self, row: &Row<'_>) {
        let exporter = row.exporter_name(&self.exporter);
        self.message.clear();
        let form = match &self.form {
            Form::Json(columns) => {
                // A write into memory does not fail.
                let _ = write_json(&mut self.message, columns, row);
                "json"
            }
            Form::Protobuf(messages) => {
                messages.write(&mut self.message, &exporter, row);
                "protobuf"
            }
        };
        let value = match form {
            "json" => self.message.trim_ascii_end(),
            _ => &self.message,
        };
        let key = key_of(&row.record.key);
        let version = SCHEMA_VERSION.to_string();
        let headers = OwnedHeaders::new()
            .insert(header("ringtap-schema", &version))
            .insert(header("ringtap-exporter", &exporter))
            .insert(header("ringtap-form", form));
        let mut record = BaseRecord::to(&self.topic)
            .key(&key[..])
            .payload(value)
            .headers(headers);
        loop {
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            match self.producer.send(record) {
                Ok(()) => {
                    self.counts.queued.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err((error, again)) if error == full && self.wait => {
                    record = again;
                    std::thread::sleep(PAUSE);
                }
                Err(_) => {
                    self.counts.no_room.fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
        }
    }

    /// Waits for acknowledgments. Messages without one count as lost.
    pub(super) fn finish(&mut self) {
        let _ = self.producer.flush(REST);
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let open = of(&self.counts.queued)
            .saturating_sub(of(&self.counts.delivered) + of(&self.counts.failed));
        if open > 0 {
            self.producer
                .purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
            let _ = self.producer.flush(PAUSE);
        }
    }

    pub(super) fn report(&self) -> ExportReport {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let lost = of(&self.counts.failed) + of(&self.counts.no_room);
        ExportReport {
            collector: self.name.clone(),
            messages: of(&self.counts.delivered),
            flows: of(&self.counts.delivered),
            bytes: of(&self.counts.bytes),
            lost_messages: lost,
            lost_flows: lost,
            ..ExportReport::default()
        }
    }
}

fn header<'a>(key: &'a str, value: &'a str) -> Header<'a, &'a str> {
    Header {
        key,
        value: Some(value),
    }
}

/// Returns a key that is the same for both directions of a flow: its ends in order, and the protocol.
fn key_of(key: &FlowKey) -> [u8; 37] {
    let end = |address: IpAddr, port: u16| {
        let mut end = [0; 18];
        end[..16].copy_from_slice(&address_bytes(address));
        end[16..].copy_from_slice(&port.to_be_bytes());
        end
    };
    let mut ends = [
        end(key.source, key.source_port),
        end(key.destination, key.destination_port),
    ];
    if key.icmp().is_some() {
        // The port of ICMP is its type, which differs by direction.
        ends.iter_mut().for_each(|end| end[16..].fill(0));
    }
    ends.sort_unstable();
    let mut bytes = [0; 37];
    bytes[..18].copy_from_slice(&ends[0]);
    bytes[18..36].copy_from_slice(&ends[1]);
    bytes[36] = key.protocol;
    bytes
}

#[cfg(test)]
mod tests;
