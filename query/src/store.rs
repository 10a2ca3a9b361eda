//! A store as a table of DataFusion.
//!
//! The table has all columns of the schema. A file that lacks some, because it is older or was written with fewer
//! fields, has nulls there. While the query runs, a lock keeps the writing program from replacing files by merged ones.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use ringtap_flow::schema::{FIELDS, Storage};
use ringtap_sys::disk;

use crate::error::QueryError;
use crate::place::Place;
use crate::{functions, rewrites};

/// The file that readers lock, shared; the store's writer makes it.
const READERS_LOCK: &str = ".readers";
/// How long the writer may hold the lock: it replaces files meanwhile.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);

/// The columns of addresses, which get a column of text beside them.
const ADDRESSES: [&str; 3] = ["src", "dst", "exporter_address"];

/// The limits of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// Bytes of temporary files.
    pub(crate) spill: u64,
    pub(crate) threads: usize,
}

/// The time that a question is about, by the end of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) from: Option<Timestamp>,
    pub(crate) to: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

impl Range {
    /// Returns the condition on rows; the days and hours of the folders are conditions too, so that other folders
    /// are not opened.
    pub(crate) fn condition(self) -> String {
        let mut parts = vec!["true".to_owned()];
        if let Some(from) = self.from {
            parts.push(format!("last >= {}", literal(from)));
            parts.push(folder(from, ">"));
        }
        if let Some(to) = self.to {
            parts.push(format!("last < {}", literal(to)));
            parts.push(folder(to, "<"));
        }
        parts.join(" AND ")
    }

    /// Whether the folder of a day may have records of the range.
    pub(crate) fn has_day(self, day: Date) -> bool {
        let date = |time| TimeZone::UTC.to_datetime(time).date();
        self.from.is_none_or(|from| day >= date(from)) && self.to.is_none_or(|to| day <= date(to))
    }
}

/// Returns a time as a literal of SQL.
fn literal(time: Timestamp) -> String {
    format!("arrow_cast('{time}', 'Timestamp(Nanosecond, Some(\"UTC\"))')")
}

/// Returns the condition that a folder is not on the wrong side of a time. A collected record that pretends to be
/// far from the present is in the folder of the hour when it came; all others are in that of their end.
fn folder(time: Timestamp, side: &str) -> String {
    let time = TimeZone::UTC.to_datetime(time);
    let (date, hour) = (time.date(), time.hour());
    format!("(date {side} DATE '{date}' OR (date = DATE '{date}' AND hour {side}= {hour}))")
}

/// A store that is being read.
pub(crate) struct Store {
    pub(crate) context: SessionContext,
    /// The lock of a folder is held as long as the file is open.
    _lock: Option<File>,
}

impl Store {
    /// Opens a store, with its files as the table `stored`.
    pub(crate) async fn open(
        place: &Place,
        limits: &Limits,
        range: Range,
    ) -> Result<Self, QueryError> {
        let lock = match place {
            Place::Folder(path) => Some(lock(path)?),
            Place::Bucket(_) => None,
        };
        let memory = usize::try_from(limits.memory).unwrap_or(usize::MAX);
        let disk = DiskManagerBuilder::default().with_max_temp_directory_size(limits.spill);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(memory)))
            .with_disk_manager_builder(disk)
            .build_arc()?;
        let mut config = SessionConfig::new()
            .with_target_partitions(limits.threads)
            .with_collect_statistics(false)
            .with_information_schema(true);
        let options = config.options_mut();
        options.execution.parquet.pushdown_filters = true;
        options.execution.parquet.reorder_filters = true;
        options.execution.time_zone = Some("UTC".to_owned());
        let context = SessionContext::new_with_config_rt(config, runtime);
        functions::register(&context);
        rewrites::register(&context);
        if let Place::Bucket(bucket) = place {
            bucket.open(&context, range).await?;
        }
        context.register_table("stored", Arc::new(table(&place.url()?)?))?;
        Ok(Self {
            context,
            _lock: lock,
        })
    }

    /// Makes the table `flows`: the rows of the range, and addresses also as text.
    pub(crate) async fn restrict(&self, range: Range) -> Result<(), QueryError> {
        let texts = ADDRESSES.map(|name| format!("ip_text({name}) AS {name}_text"));
        let sql = format!(
            "CREATE VIEW flows AS SELECT *, {} FROM stored WHERE {}",
            texts.join(", "),
            range.condition()
        );
        self.context.sql(&sql).await?.collect().await?;
        Ok(())
    }
}

fn lock(path: &Path) -> Result<File, QueryError> {
    let file = path.join(READERS_LOCK);
    let failed = |source| QueryError::Folder {
        path: file.clone(),
        source,
    };
    let lock = match File::open(&file) {
        Ok(lock) => lock,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(QueryError::NoStore {
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(failed(error)),
    };
    for _ in 0..TRIES {
        if disk::try_lock(&lock, false).map_err(|error| failed(error.source))? {
            return Ok(lock);
        }
        std::thread::sleep(PAUSE);
    }
    Err(failed(std::io::ErrorKind::WouldBlock.into()))
}

fn table(url: &str) -> Result<ListingTable, QueryError> {
    let url = ListingTableUrl::parse(url)?;
    let levels = [
        ("date".to_owned(), DataType::Date32),
        ("hour".to_owned(), DataType::Int8),
        ("exporter".to_owned(), DataType::Utf8),
    ];
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_table_partition_cols(levels.into())
        .with_collect_stat(false);
    let config = ListingTableConfig::new(url)
        .with_listing_options(options)
        .with_schema(Arc::new(schema()));
    Ok(ListingTable::try_new(config)?)
}

/// Returns the columns of files.
fn schema() -> Schema {
    let columns = FIELDS.iter().filter(|field| field.in_files).map(|field| {
        let kind = match field.storage() {
            Storage::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Storage::U8 => DataType::UInt8,
            Storage::U16 => DataType::UInt16,
            Storage::U32 => DataType::UInt32,
            Storage::I64 => DataType::Int64,
            Storage::Address => DataType::FixedSizeBinary(16),
            Storage::Text => DataType::Utf8View,
        };
        Field::new(field.stored_name(), kind, !field.is_required())
    });
    Schema::new(columns.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_the_folders_that_it_is_in() {
        let time = |text: &str| Some(text.parse().expect("a time"));
        let range = Range {
            from: time("2026-11-26T07:30:00Z"),
            to: time("2026-11-27T01:00:00Z"),
            now: Timestamp::UNIX_EPOCH,
        };
        let condition = range.condition();
        for part in [
            "(date > DATE '2026-11-26' OR (date = DATE '2026-11-26' AND hour >= 7))",
            "(date < DATE '2026-11-27' OR (date = DATE '2026-11-27' AND hour <= 1))",
        ] {
            assert!(condition.contains(part), "{condition}");
        }
    }
}
