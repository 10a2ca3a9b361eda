//! Records in a topic of the library's own brokers, which run in this process and fail on request.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Headers as _;
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use ringtap_flow::FlowRecord;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);
const FLOWS: u16 = 50;
const RECORDS: u64 = 20;

fn record(flow: u16, number: u64) -> FlowRecord {
    let mut record = FlowRecord::default();
    record.key.source = [192, 0, 2, 1].into();
    record.key.destination = [192, 0, 2, 2].into();
    record.key.source_port = 1000 + flow;
    record.key.destination_port = 443;
    record.key.protocol = ringtap_packet::protocol::TCP;
    if number % 2 == 1 {
        // The other direction.
        std::mem::swap(&mut record.key.source, &mut record.key.destination);
        std::mem::swap(
            &mut record.key.source_port,
            &mut record.key.destination_port,
        );
    }
    record.forward.packets = number;
    record
}

fn open(cluster: &MockCluster<'_, rdkafka::producer::DefaultProducerContext>) -> Kafka {
    let address = format!("kafka:{}/flows", cluster.bootstrap_servers());
    let address: CollectorAddress = address.parse().expect("an address");
    let own = ("p1", &KafkaSettings::default());
    Kafka::open(&address, &OutputOptions::default().wait(true), own).expect("a producer")
}

/// Brokers fail while records are sent: each is in the topic once, and those of a flow are in one partition, in order.
#[test]
fn records_arrive_once_and_in_order_although_brokers_fail() {
    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND as AFTER_APPEND,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT as TIMED_OUT,
    };
    let cluster = MockCluster::new(3).expect("brokers");
    cluster.create_topic("flows", 4, 3).expect("a topic");
    let mut kafka = open(&cluster);
    for number in 0..RECORDS {
        if number == RECORDS / 2 {
            let errors = [TIMED_OUT, AFTER_APPEND, TIMED_OUT];
            cluster.request_errors(RDKafkaApiKey::Produce, &errors);
        }
        (0..FLOWS).for_each(|flow| kafka.record(&Row::new(&record(flow, number))));
    }
    kafka.finish();
    let report = kafka.report();
    let sent = u64::from(FLOWS) * RECORDS;
    assert_eq!((report.flows, report.lost_flows), (sent, 0));

    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "test")
        .set("auto.offset.reset", "earliest")
        .create()
        .expect("a consumer");
    consumer.subscribe(&["flows"]).expect("subscribed");
    let mut flows: HashMap<Vec<u8>, (i32, Vec<u64>)> = HashMap::new();
    let mut count = 0;
    let deadline = Instant::now() + LIMIT;
    while count < sent && Instant::now() < deadline {
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        count += 1;
        let json: serde_json::Value =
            serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        let headers = message.headers().expect("headers");
        let value = |at: usize| headers.get(at).value.unwrap_or_default().to_vec();
        assert_eq!((value(0), value(1)), (b"1".to_vec(), b"p1".to_vec()));
        let key = message.key().expect("a key").to_vec();
        let flow = flows
            .entry(key)
            .or_insert((message.partition(), Vec::new()));
        assert_eq!(flow.0, message.partition());
        flow.1.push(json["packets"].as_u64().expect("a number"));
    }
    assert_eq!(
        flows.len(),
        usize::from(FLOWS),
        "both directions have one key"
    );
    for (_, numbers) in flows.values() {
        assert_eq!(*numbers, (0..RECORDS).collect::<Vec<u64>>());
    }
}

#[test]
fn both_directions_have_one_key() {
    let there = FlowKey {
        source: [192, 0, 2, 1].into(),
        destination: [192, 0, 2, 2].into(),
        source_port: 40_000,
        destination_port: 443,
        protocol: 6,
        ..FlowKey::default()
    };
    let back = FlowKey {
        source: there.destination,
        destination: there.source,
        source_port: 443,
        destination_port: 40_000,
        ..there
    };
    assert_eq!(key_of(&there), key_of(&back));
    let other = FlowKey {
        source_port: 40_001,
        ..there
    };
    assert_ne!(key_of(&there), key_of(&other));
}
