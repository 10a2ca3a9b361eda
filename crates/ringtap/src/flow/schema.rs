//! `ringtap flow schema`: the schema of stored records, and SQL that is made from it.

use std::fmt::Write as _;
use std::process::ExitCode;

use ringtap_flow::schema::{EXPORTER_NUMBER, FIELDS, Field, Partition, SCHEMA_VERSION, Storage};

use crate::cli::{SchemaArgs, SchemaEngine, SchemaFormat};
use crate::notice::notice;
use crate::object::object;
use crate::output;

/// Prints the schema.
pub(super) fn run(args: &SchemaArgs) -> ExitCode {
    let text = match args.engine {
        None => schema(args.format),
        Some(SchemaEngine::Clickhouse) => clickhouse(&args.table, args.cluster.as_deref()),
        Some(_) if args.cluster.is_some() => {
            notice("--cluster is for ClickHouse");
            return ExitCode::from(crate::exit::USAGE);
        }
        Some(SchemaEngine::Duckdb) => duckdb(&args.table, &args.store),
        Some(SchemaEngine::Spark) => spark(&args.table, &args.store),
        Some(SchemaEngine::Protobuf) => protobuf(),
    };
    match output::print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notice(format_args!("standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn columns() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(|field| field.in_files)
}

fn schema(format: SchemaFormat) -> String {
    match format {
        SchemaFormat::Table => table(),
        SchemaFormat::Markdown => markdown(),
        SchemaFormat::Json => json(),
    }
}

fn table() -> String {
    let mut text = format!("schema of flow records, version {SCHEMA_VERSION}\n\n");
    for level in Partition::ALL {
        let Partition { name, doc } = level;
        let _ = writeln!(text, "{name:<24}{:<28}{:<10}{doc}", "folder", "");
    }
    for field in columns() {
        let _ = writeln!(
            text,
            "{:<24}{:<28}{:<10}{}",
            field.stored_name(),
            field.storage().parquet(),
            if field.is_required() { "" } else { "or null" },
            field.doc
        );
    }
    text
}

/// Returns the table of the reference pages.
pub(crate) fn markdown() -> String {
    let mut text = "| column | Parquet | null | DuckDB | ClickHouse | Spark | IPFIX | meaning |\n\
                    |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for Partition { name, doc } in Partition::ALL {
        let _ = writeln!(text, "| `{name}` | folder | | | | | | {doc} |");
    }
    for field in columns() {
        let storage = field.storage();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
            field.stored_name(),
            storage.parquet(),
            if field.is_required() { "" } else { "yes" },
            storage.duckdb(),
            clickhouse_type(field),
            storage.spark(),
            elements(field),
            field.doc
        );
    }
    text
}

/// Returns the elements of IPFIX that carry a field, as `ENTERPRISE.NUMBER` or a number of IANA's.
fn elements(field: &Field) -> String {
    let wires = field.elements.iter().filter(|wire| wire.ipfix);
    let names = wires.map(|wire| match wire.enterprise {
        0 => wire.id.to_string(),
        enterprise => format!("{enterprise}.{}", wire.id),
    });
    names.collect::<Vec<_>>().join(", ")
}

object! {
    struct Schema() {
        version: u32 = SCHEMA_VERSION,
        folders: Vec<Folder> = Partition::ALL.map(Folder::new).into(),
        columns: Vec<Column> = columns().map(Column::new).collect(),
    }
}

object! {
    struct Folder(level: Partition) {
        name: &'static str = level.name,
        doc: &'static str = level.doc,
    }
}

object! {
    struct Column(field: &'static Field) {
        name: &'static str = field.stored_name(),
        parquet: &'static str = field.storage().parquet(),
        nullable: bool = !field.is_required(),
        group: &'static str = field.group.name(),
        ipfix: String = elements(field),
        doc: &'static str = field.doc,
    }
}

fn json() -> String {
    serde_json::to_string_pretty(&Schema::new()).unwrap_or_default() + "\n"
}

/// Returns text as a literal of SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn duckdb(table: &str, store: &str) -> String {
    let files = literal(&format!("{store}/date=*/hour=*/exporter=*/*.parquet"));
    format!(
        "-- Flow records, schema version {SCHEMA_VERSION}, for DuckDB (tried with 2.0)\n\
         CREATE OR REPLACE VIEW {table} AS\n\
         SELECT * FROM read_parquet({files}, hive_partitioning = true, union_by_name = true,\n\
         \x20   hive_types = {{'date': DATE, 'hour': TINYINT, 'exporter': VARCHAR}});\n\n\
         -- ip_text(src): an address as text\n\
         CREATE OR REPLACE MACRO ip_text(a) AS CASE\n\
         \x20 WHEN a IS NULL THEN NULL\n\
         \x20 WHEN hex(a) LIKE '00000000000000000000FFFF%' THEN concat_ws('.',\n\
         \x20   ('0x' || hex(a)[25:26])::UTINYINT, ('0x' || hex(a)[27:28])::UTINYINT,\n\
         \x20   ('0x' || hex(a)[29:30])::UTINYINT, ('0x' || hex(a)[31:32])::UTINYINT)\n\
         \x20 ELSE lower(concat_ws(':', hex(a)[1:4], hex(a)[5:8], hex(a)[9:12], hex(a)[13:16],\n\
         \x20   hex(a)[17:20], hex(a)[21:24], hex(a)[25:28], hex(a)[29:32])) END;\n\n\
         -- ip('192.0.2.1'): an IPv4 address as the bytes of a column, for comparisons\n\
         CREATE OR REPLACE MACRO ip(t) AS unhex('00000000000000000000FFFF' || format('{{:02X}}{{:02X}}{{:02X}}{{:02X}}',\n\
         \x20 split_part(t, '.', 1)::INT, split_part(t, '.', 2)::INT,\n\
         \x20 split_part(t, '.', 3)::INT, split_part(t, '.', 4)::INT));\n"
    )
}

fn spark(table: &str, store: &str) -> String {
    let path = format!("`{}`", store.replace('`', "``"));
    format!(
        "-- Flow records, schema version {SCHEMA_VERSION}, for Spark SQL\n\
         -- Spark has no nanoseconds: times are numbers. timestamp_micros(first div 1000) makes a timestamp\n\
         SET spark.sql.legacy.parquet.nanosAsLong = true;\n\
         SET spark.sql.parquet.mergeSchema = true;\n\
         CREATE OR REPLACE TEMPORARY VIEW {table} AS SELECT * FROM parquet.{path};\n"
    )
}

fn protobuf() -> String {
    let mut text = format!(
        "// Flow records of ringtap, schema version {SCHEMA_VERSION}. A version adds fields; it changes and removes none.\n\
         // Addresses have 16 bytes, IPv4 as ::ffff:a.b.c.d; times are nanoseconds since 1970, UTC.\n\
         // A field that is missing has no value. \"In messages\" below means those of NetFlow and IPFIX.\n\
         // Made by: ringtap flow schema protobuf\n\
         syntax = \"proto3\";\n\npackage ringtap;\n\nmessage Flow {{\n\
         \x20 // Name of the probe, or address of the exporter\n\
         \x20 string exporter = {EXPORTER_NUMBER};\n"
    );
    for field in columns() {
        let (name, kind) = (field.stored_name(), field.storage().protobuf());
        let number = field.protobuf_number();
        let _ = write!(
            text,
            "  // {}\n  optional {kind} {name} = {number};\n",
            field.doc
        );
    }
    text + "}\n"
}

fn clickhouse_type(field: &Field) -> String {
    let name = field.storage().clickhouse();
    let is_repetitive = matches!(
        field.name,
        "end_reason" | "tunnel" | "app" | "app_basis" | "name_source" | "http_method"
    );
    match (field.is_required(), is_repetitive) {
        (true, _) => name.to_owned(),
        (false, true) => format!("LowCardinality(Nullable({name}))"),
        (false, false) => format!("Nullable({name})"),
    }
}

/// The number of batches whose tokens the server remembers, to recognise one that is sent again.
const REMEMBERED: u32 = 10_000;
/// The seconds for which replicated tables remember a token: 30 days. ClickHouse's own default is an hour in new versions.
const REMEMBERED_FOR: u32 = 30 * 24 * 3600;

fn clickhouse(table: &str, cluster: Option<&str>) -> String {
    let on = cluster.map_or_else(String::new, |name| format!(" ON CLUSTER {name}"));
    let local = match cluster {
        Some(_) => format!("{table}_local"),
        None => table.to_owned(),
    };
    let mut text = format!("-- Flow records, schema version {SCHEMA_VERSION}, for ClickHouse\n");
    let _ = writeln!(text, "CREATE TABLE IF NOT EXISTS {local}{on}\n(");
    let mut lines = vec!["    exporter LowCardinality(String)".to_owned()];
    for field in columns() {
        let codec = match field.storage() {
            Storage::Time => " CODEC(Delta, ZSTD(1))",
            _ => " CODEC(ZSTD(1))",
        };
        let kind = clickhouse_type(field);
        lines.push(format!("    {} {kind}{codec}", field.stored_name()));
    }
    text += &lines.join(",\n");
    let engine = match cluster {
        Some(_) => {
            format!("ReplicatedMergeTree('/clickhouse/tables/{{shard}}/{local}', '{{replica}}')")
        }
        None => "MergeTree".to_owned(),
    };
    let window = match cluster {
        Some(_) => format!(
            "replicated_deduplication_window = {REMEMBERED}, \
             replicated_deduplication_window_seconds = {REMEMBERED_FOR}"
        ),
        None => format!("non_replicated_deduplication_window = {REMEMBERED}"),
    };
    let _ = write!(
        text,
        "\n)\nENGINE = {engine}\nPARTITION BY toYYYYMMDD(last)\n\
         ORDER BY (toStartOfHour(last), src, dst, last)\nSETTINGS {window};\n\n"
    );
    if let Some(cluster) = cluster {
        let (database, bare) = match table.split_once('.') {
            Some((database, _)) => (format!("'{database}'"), &local[database.len() + 1..]),
            None => ("currentDatabase()".to_owned(), &local[..]),
        };
        let _ = write!(
            text,
            "-- Both directions of a flow are on one shard.\n\
             CREATE TABLE IF NOT EXISTS {table}{on} AS {local}\n\
             ENGINE = Distributed('{cluster}', {database}, '{bare}',\n\
             \x20   cityHash64(least(src, dst), greatest(src, dst)));\n\n"
        );
    }
    text + &rollup(&local, &on, cluster.is_some())
}

/// Returns a table of sums by minute, and the view that fills it.
fn rollup(local: &str, on: &str, is_replicated: bool) -> String {
    let sums = format!("{local}_by_minute");
    let engine = match is_replicated {
        true => format!(
            "ReplicatedSummingMergeTree('/clickhouse/tables/{{shard}}/{sums}', '{{replica}}')"
        ),
        false => "SummingMergeTree".to_owned(),
    };
    format!(
        "-- Sums by minute and address, for long times\n\
         CREATE TABLE IF NOT EXISTS {sums}{on}\n(\n\
         \x20   minute DateTime('UTC'),\n    exporter LowCardinality(String),\n    src IPv6,\n    dst IPv6,\n\
         \x20   protocol UInt8,\n    flows UInt64,\n    packets UInt64,\n    bytes UInt64\n)\n\
         ENGINE = {engine}\nPARTITION BY toYYYYMM(minute)\nORDER BY (minute, exporter, src, dst, protocol);\n\n\
         CREATE MATERIALIZED VIEW IF NOT EXISTS {sums}_view{on} TO {sums} AS\n\
         SELECT toStartOfMinute(toDateTime(last, 'UTC')) AS minute, exporter, src, dst, protocol,\n\
         \x20   count() AS flows, sum(packets) AS packets, sum(bytes) AS bytes\n\
         FROM {local} GROUP BY minute, exporter, src, dst, protocol;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_every_column() {
        let all = [
            table(),
            markdown(),
            json(),
            clickhouse("flows", Some("c")),
            protobuf(),
        ];
        for text in all {
            for field in columns() {
                assert!(text.contains(field.stored_name()), "{}", field.name);
            }
        }
    }

    /// The file is for people who compile their readers from it.
    #[test]
    fn the_file_of_messages_is_that_of_the_command() {
        let file = include_str!("../../../../contrib/ringtap-flow.proto");
        assert!(
            file == protobuf(),
            "run: ringtap flow schema protobuf > contrib/ringtap-flow.proto"
        );
    }

    #[test]
    fn names_of_folders_cannot_end_a_literal() {
        assert_eq!(literal("a'b"), "'a''b'");
        assert!(duckdb("flows", "x'); DROP TABLE y; --").contains("x''); DROP"));
        assert!(spark("flows", "x`y").contains("`x``y`"));
    }

    #[test]
    fn a_cluster_has_replicated_tables_and_one_that_leads_to_all() {
        let text = clickhouse("net.flows", Some("c1"));
        assert!(text.contains("CREATE TABLE IF NOT EXISTS net.flows_local ON CLUSTER c1"));
        assert!(text.contains("Distributed('c1', 'net', 'flows_local',"));
        assert!(!clickhouse("flows", None).contains("Distributed"));
    }
}
