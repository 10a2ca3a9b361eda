//! The options of the records of `ringtap flow`: where they go, and what they contain.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ringtap_flow::export::Enterprise;
use ringtap_flow::schema::Fields;
use ringtap_flow_io::CollectorAddress;

use super::FileArgs;
use crate::values::{self, Size};

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Send records to this collector: udp:HOST:PORT, tcp:HOST:PORT for IPFIX, into a table of ClickHouse,
    /// clickhouse:http://HOST:8123/TABLE, or to a topic of Kafka, kafka:HOST:9092/TOPIC; may be given several times
    #[arg(long, value_name = "udp:HOST:PORT")]
    pub(crate) export: Vec<CollectorAddress>,
    /// Let batches for ClickHouse wait in this folder, on the disk, until the server has taken them: also over the end
    /// of the run and a crash. It is created if it does not exist
    #[arg(long, value_name = "DIR", requires = "export")]
    pub(crate) spool: Option<PathBuf>,
    /// Largest size of the batches that wait for one table; beyond it, records are lost and counted
    #[arg(long, value_name = "SIZE", default_value = "1G", requires = "spool")]
    pub(crate) spool_size: Size,
    /// Settings of the connection to Kafka, such as TLS and SASL: lines NAME=VALUE with the names of librdkafka
    #[arg(long, value_name = "FILE", requires = "export")]
    pub(crate) kafka_config: Option<PathBuf>,
    /// Form of the messages to Kafka
    #[arg(long, value_name = "FORM", default_value = "json")]
    pub(crate) kafka_value: KafkaValue,
    /// Protocol of --export
    #[arg(
        long = "version",
        id = "protocol",
        value_name = "VERSION",
        default_value = "ipfix"
    )]
    pub(crate) protocol: Protocol,
    /// Write records to this file, in the format of its ending: .csv, .json, .parquet, .ipfix, .pb (messages of
    /// Protocol Buffers, each behind its length); - is JSON on standard output; may be given several times
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) write: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Observation domain of IPFIX, source id of NetFlow v9, engine id of v5
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) domain: u32,
    /// Longest datagram with its IP and UDP headers, in bytes
    #[arg(long, value_name = "BYTES", default_value = "1500",
          value_parser = values::whole::<u16>("bytes", 576, Some(65_535)))]
    pub(crate) mtu: u16,
    /// Repeat templates and options after this time
    #[arg(long, value_name = "DUR", default_value = "60s", value_parser = values::interval)]
    pub(crate) template_interval: Duration,
    /// Repeat templates and options after this many messages with flows
    #[arg(long, value_name = "N", default_value = "500",
          value_parser = values::whole::<u32>("messages", 1, None))]
    pub(crate) template_messages: u32,
    /// Send times in nanoseconds too, besides milliseconds (IPFIX only)
    #[arg(long)]
    pub(crate) nano: bool,
    /// Private enterprise number of IPFIX elements that neither IANA's registry nor ntop has, if your
    /// organisation has registered one; without it 32473, which is reserved for examples. With --collect,
    /// also the number of such elements that come
    #[arg(long, value_name = "NUMBER")]
    pub(crate) enterprise: Option<Enterprise>,
    /// Fields of records, by names or groups between commas, such as basic,tcp: basic, tcp, names, dns, tls,
    /// quic, http, services, as, mac, process, all. Messages have the basic ones in any case
    #[arg(long, value_name = "LIST", default_value = "basic", value_parser = Fields::parse)]
    pub(crate) fields: Fields,
    /// Database in MaxMind's format for the fields as; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) mmdb: Vec<PathBuf>,
    /// Vendors of MAC addresses for the fields mac: IEEE's oui.txt or oui.csv, or Wireshark's manuf
    #[arg(long, value_name = "FILE")]
    pub(crate) oui: Option<PathBuf>,
}

/// The export protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// NetFlow v5
    #[value(name = "5")]
    V5,
    /// NetFlow v9
    #[value(name = "9")]
    V9,
    /// IPFIX
    #[value(name = "ipfix", alias = "10")]
    Ipfix,
}

impl From<Protocol> for ringtap_flow::export::Version {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::V5 => Self::V5,
            Protocol::V9 => Self::V9,
            Protocol::Ipfix => Self::Ipfix,
        }
    }
}

/// The forms of messages to Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KafkaValue {
    /// A JSON object
    Json,
    /// A message of Protocol Buffers, as ringtap flow schema protobuf describes it
    Protobuf,
}

impl From<KafkaValue> for ringtap_flow_io::MessageForm {
    fn from(value: KafkaValue) -> Self {
        match value {
            KafkaValue::Json => Self::Json,
            KafkaValue::Protobuf => Self::Protobuf,
        }
    }
}
