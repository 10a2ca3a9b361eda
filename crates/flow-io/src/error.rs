//! The errors of sending, writing and collecting flow records.

use std::io;
use std::path::PathBuf;

use ringtap_flow::export::ExportError;

/// An error of an output, or of an output's address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The protocol does not support the options.
    #[error(transparent)]
    Protocol(#[from] ExportError),
    /// An invalid address of a collector.
    #[error(
        "expected udp:HOST:PORT, tcp:HOST:PORT, clickhouse:http://HOST:PORT/TABLE or kafka:HOST:PORT/TOPIC, such as \
         udp:192.0.2.1:2055 or tcp:[2001:db8::1]:4739"
    )]
    CollectorAddress,
    /// An invalid address to listen on.
    #[error("expected udp:HOST:PORT, such as udp:127.0.0.1:2055 or udp:[::]:4739")]
    ListenAddress,
    /// NetFlow over TCP, which only IPFIX supports.
    #[error("{address}: only IPFIX goes over TCP (--version ipfix)")]
    NotOverTcp {
        /// The collector's address.
        address: String,
    },
    /// A failed operation on a socket, or a name without an address.
    #[error("{address}: cannot {what}: {source}")]
    Socket {
        /// The address as it was specified.
        address: String,
        /// The operation.
        what: &'static str,
        /// The system's error.
        r#source: io::Error,
    },
    /// A file name without the ending of a known format.
    #[error("{}: the name must end in .csv, .json, .jsonl, .ipfix, .pb or .parquet", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A Parquet file, where the feature `parquet` is off.
    #[error("{}: this ringtap was built without Parquet (cargo feature parquet)", path.display())]
    NoParquet {
        /// The file.
        path: PathBuf,
    },
    /// A topic of Kafka, where the feature `kafka` is off.
    #[error("{address}: this ringtap was built without Kafka (cargo feature kafka)")]
    NoKafka {
        /// The address.
        address: String,
    },
    /// A line of Kafka's settings that is invalid.
    #[error("{}, line {line}: {problem}", path.display())]
    KafkaSetting {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// A spool without a collector whose batches it could hold.
    #[error(
        "--spool is for batches to ClickHouse: name a table with --export clickhouse:http://HOST:PORT/TABLE"
    )]
    NoSpool,
    /// A store that cannot be opened or written.
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Store(#[from] crate::StoreError),
    /// A file that cannot be opened or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        r#source: io::Error,
    },
}

impl OutputError {
    /// Returns whether the options are invalid, rather than that the system failed.
    pub fn is_usage(&self) -> bool {
        match self {
            #[cfg(feature = "parquet")]
            Self::Store(error) => matches!(error, crate::StoreError::TooSmall { .. }),
            Self::Socket { .. } | Self::File { .. } => false,
            _ => true,
        }
    }
}
