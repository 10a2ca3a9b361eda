//! Options of stores of flow records: writing one (`flow --store`), its schema (`flow schema`), asking it (`query`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::RightsArgs;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Keep records in this folder, as Parquet that `ringtap query` and other engines read. It is created if it does
    /// not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Remove the oldest records of the store: by age, such as 30d, or so that the folder never takes more than a
    /// size, such as 200G; may be given for both
    #[arg(long, value_name = "AGE|SIZE", requires = "store", value_parser = values::retain)]
    pub(crate) retain: Vec<values::Retain>,
    /// Write records to the store after this time at the latest: a crash loses no older ones
    #[arg(long, value_name = "DUR", default_value = "60s", requires = "store", value_parser = values::interval)]
    pub(crate) store_interval: Duration,
    /// Keep records that are not in the store yet in a log beside it: a crash loses none, a power cut those of a second
    #[arg(long, requires = "store")]
    pub(crate) store_wal: bool,
    /// Name of this probe in the store and in ClickHouse; without it, the host's name
    #[arg(long, value_name = "NAME")]
    pub(crate) store_name: Option<String>,
}

/// The things that `ringtap flow` does beside metering.
#[derive(Debug, Subcommand)]
pub(crate) enum FlowAction {
    /// Print the schema of stored records, or SQL with which a database reads or keeps them
    Schema(SchemaArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Print SQL for this engine, or the messages of Protocol Buffers, instead of the schema
    #[arg(value_name = "ENGINE")]
    pub(crate) engine: Option<SchemaEngine>,
    /// Form of the schema
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        conflicts_with = "engine"
    )]
    pub(crate) format: SchemaFormat,
    /// Folder of the store that the SQL reads
    #[arg(long, value_name = "DIR", default_value = "DIR")]
    pub(crate) store: String,
    /// Name of the table or view that the SQL creates
    #[arg(long, value_name = "NAME", default_value = "flows", value_parser = values::table_name)]
    pub(crate) table: String,
    /// For ClickHouse: create replicated tables on this cluster
    #[arg(long, value_name = "NAME", value_parser = values::table_name)]
    pub(crate) cluster: Option<String>,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

/// The engines for which there is SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaEngine {
    /// A table that takes records, with sums by minute
    Clickhouse,
    /// A view of a store, with functions for addresses
    Duckdb,
    /// A view of a store
    Spark,
    /// The file .proto of the messages in Kafka and in files .pb
    Protobuf,
}

/// The forms of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaFormat {
    /// A table for people
    Table,
    /// One JSON object
    Json,
    /// A table in Markdown
    Markdown,
}

/// Everything after `query` is for `ringtap-query`, including `--help` and `--version`.
#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// Arguments of ringtap-query; its options are shown by ringtap query --help
    #[arg(
        value_name = "ARG",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    _arguments: Vec<OsString>,
}
