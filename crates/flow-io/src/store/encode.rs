//! The files of a store, in Parquet: columns to bytes, and back.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::column::reader::get_typed_column_reader;
use parquet::column::writer::{ColumnCloseResult, ColumnWriterImpl};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, ReaderProperties, WriterProperties};
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::file::serialized_reader::ReadOptionsBuilder;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use ringtap_flow::schema::{FIELDS, Field, SCHEMA_VERSION, Storage};

use super::columns::{Column, Columns, Values};

/// The number of records in a row group, at most twice as many.
pub(super) const GROUP: usize = 131_072;
/// The records of a row group from which on it is written for good: a merge copies its bytes.
pub(super) const WHOLE: usize = GROUP / 2;
/// The most records of a page, which is the least that a reader decompresses: those of one host are in one or two.
const PAGE: usize = 8_192;

/// The most bytes of a dictionary, which a reader needs for each page that it reads. Columns of many values (bytes, ports,
/// addresses) go on without one.
const DICTIONARY: usize = 64 << 10;

/// The key of the schema's version in the metadata of a file.
const VERSION_KEY: &str = "ringtap.schema_version";
/// The key of the number of the batch that a file was made of, if that had a log.
const BATCH_KEY: &str = "ringtap.batch";
/// The share of addresses that a filter takes for present though they are not.
const FALSE_POSITIVES: f64 = 0.01;
/// Compression of row groups that are written once and read for long.
const LASTING_LEVEL: i32 = 3;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// Whether its row groups are read for long: they are compressed better, and have filters of addresses. Others are
    /// written again when files are merged.
    pub(super) lasts: bool,
    /// The number of the batch that it is made of, if that has a log.
    pub(super) batch: Option<u64>,
}

/// A file that is being made in memory.
pub(super) struct Encoder {
    writer: SerializedFileWriter<Vec<u8>>,
    /// The records so far.
    pub(super) rows: u64,
}

impl Encoder {
    /// Starts a file.
    pub(super) fn new(fields: &[&'static Field], form: Form) -> io::Result<Self> {
        let schema = schema(fields, column).map_err(failed)?;
        let properties = properties(fields, form).map_err(failed)?;
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties));
        Ok(Self {
            writer: writer.map_err(failed)?,
            rows: 0,
        })
    }

    /// Writes the records with these numbers as a row group, sorted ([`Columns::sort`]).
    pub(super) fn group(&mut self, columns: &Columns, rows: &mut [u32]) -> io::Result<()> {
        columns.sort(rows);
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for (field, column) in columns.fields.iter().zip(&columns.columns) {
            let Some(mut writer) = group.next_column().map_err(failed)? else {
                break;
            };
            let written = write_column(&mut writer, column, rows, field.is_required());
            written.and_then(|()| writer.close()).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Copies a row group of a file with the same columns, undecoded.
    fn copy(&mut self, from: &Decoder, group: usize) -> Result<(), ParquetError> {
        let described = from.reader.metadata().row_group(group);
        let filters = from.reader.get_row_group(group)?;
        let index = from.reader.metadata().page_index_for_row_group(group);
        let rows = u64::try_from(described.num_rows()).unwrap_or(0);
        let mut to = self.writer.next_row_group()?;
        for (at, column) in described.columns().iter().enumerate() {
            let closed = ColumnCloseResult {
                bytes_written: u64::try_from(column.compressed_size()).unwrap_or(0),
                rows_written: rows,
                metadata: column.clone(),
                bloom_filter: filters.get_column_bloom_filter(at).cloned(),
                column_index: index.column_index(at).cloned(),
                offset_index: index.offset_index(at).cloned(),
            };
            to.append_column(&from.file, closed)?;
        }
        to.close()?;
        self.rows += rows;
        Ok(())
    }

    /// Returns the bytes so far.
    pub(super) fn bytes(&self) -> usize {
        self.writer.bytes_written()
    }

    /// Returns the bytes of the file.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        self.writer.into_inner().map_err(failed)
    }
}

fn write_column(
    writer: &mut SerializedColumnWriter<'_>,
    column: &Column,
    rows: &[u32],
    is_required: bool,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = rows
        .iter()
        .map(|&row| column.present[row as usize])
        .collect();
    let chosen = rows
        .iter()
        .map(|&row| row as usize)
        .filter(|&row| is_required || column.present[row] != 0);
    let levels = (!is_required).then_some(&levels[..]);
    match &column.values {
        Values::Small(numbers) => {
            let values: Vec<i32> = chosen.map(|row| numbers[row]).collect();
            write::<Int32Type>(writer.typed(), &values, levels)
        }
        Values::Large(numbers) => {
            let values: Vec<i64> = chosen.map(|row| numbers[row]).collect();
            write::<Int64Type>(writer.typed(), &values, levels)
        }
        Values::Addresses(addresses) => {
            let bytes: Vec<u8> = chosen.flat_map(|row| addresses[row]).collect();
            let all = ByteArray::from(bytes);
            let starts = (0..all.len()).step_by(16);
            let values: Vec<_> = starts
                .map(|start| FixedLenByteArray::from(all.slice(start, 16)))
                .collect();
            write::<FixedLenByteArrayType>(writer.typed(), &values, levels)
        }
        Values::Texts { bytes, ends } => {
            let all = ByteArray::from(bytes.clone());
            let start = |row: usize| row.checked_sub(1).map_or(0, |before| ends[before]);
            let values: Vec<_> = chosen
                .map(|row| all.slice(start(row), ends[row] - start(row)))
                .collect();
            write::<ByteArrayType>(writer.typed(), &values, levels)
        }
    }
}

fn write<T: DataType>(
    writer: &mut ColumnWriterImpl<'_, T>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    writer.write_batch(values, levels, None).map(drop)
}

/// Returns the schema of files with these fields; `column` makes the type of each.
pub(crate) fn schema(
    fields: &[&Field],
    column: fn(&Field) -> Result<TypePtr, ParquetError>,
) -> Result<TypePtr, ParquetError> {
    let columns: Result<Vec<_>, _> = fields.iter().map(|field| column(field)).collect();
    let root = Type::group_type_builder("flows").with_fields(columns?);
    Ok(Arc::new(root.build()?))
}

fn column(field: &Field) -> Result<TypePtr, ParquetError> {
    let unsigned = |bits| Some(LogicalType::integer(bits, false));
    let (physical, logical) = match field.storage() {
        Storage::Time => {
            let time = LogicalType::timestamp(true, TimeUnit::NANOS);
            (Physical::INT64, Some(time))
        }
        Storage::U8 => (Physical::INT32, unsigned(8)),
        Storage::U16 => (Physical::INT32, unsigned(16)),
        Storage::U32 => (Physical::INT32, unsigned(32)),
        Storage::I64 => (Physical::INT64, None),
        Storage::Address => (Physical::FIXED_LEN_BYTE_ARRAY, None),
        Storage::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = match field.is_required() {
        true => Repetition::REQUIRED,
        false => Repetition::OPTIONAL,
    };
    let length = match physical {
        Physical::FIXED_LEN_BYTE_ARRAY => 16,
        _ => -1,
    };
    let built = Type::primitive_type_builder(field.stored_name(), physical)
        .with_repetition(repetition)
        .with_length(length)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(built))
}

fn properties(fields: &[&Field], form: Form) -> Result<WriterProperties, ParquetError> {
    let level = if form.lasts { LASTING_LEVEL } else { 1 };
    let mut facts = vec![KeyValue::new(
        VERSION_KEY.to_owned(),
        SCHEMA_VERSION.to_string(),
    )];
    if let Some(number) = form.batch {
        facts.push(KeyValue::new(BATCH_KEY.to_owned(), number.to_string()));
    }
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?))
        .set_created_by(concat!("ringtap ", env!("CARGO_PKG_VERSION")).into())
        .set_key_value_metadata(Some(facts))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(2 * GROUP + 1))
        .set_data_page_row_count_limit(PAGE)
        .set_dictionary_page_size_limit(DICTIONARY)
        .set_sorting_columns(Some(sorting(fields)));
    for field in fields {
        let path = || ColumnPath::from(field.stored_name());
        properties = match field.storage() {
            // No two are equal, and neighbours are close.
            Storage::Time => properties
                .set_column_dictionary_enabled(path(), false)
                .set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED),
            Storage::Address if form.lasts && matches!(field.name, "src" | "dst") => properties
                .set_column_bloom_filter_enabled(path(), true)
                .set_column_bloom_filter_fpp(path(), FALSE_POSITIVES)
                .set_column_bloom_filter_max_ndv(path(), 2 * GROUP as u64),
            _ => properties,
        };
        if field.name == "src" {
            // It is sorted: equal values are beside each other, which zstd sees without a dictionary.
            properties = properties
                .set_column_dictionary_enabled(path(), false)
                .set_column_statistics_enabled(path(), EnabledStatistics::Page);
        }
    }
    Ok(properties.build())
}

/// Returns the order of the rows of a group.
fn sorting(fields: &[&Field]) -> Vec<SortingColumn> {
    let columns = ["src", "first"].into_iter().filter_map(|name| {
        let at = fields.iter().position(|field| field.name == name)?;
        Some(SortingColumn {
            column_idx: i32::try_from(at).ok()?,
            descending: false,
            nulls_first: true,
        })
    });
    columns.collect()
}

/// A file of a store that is being read.
pub(super) struct Decoder {
    reader: SerializedFileReader<File>,
    /// The same file, for bytes that are copied.
    file: File,
    next: usize,
}

impl Decoder {
    pub(super) fn open(file: File) -> io::Result<Self> {
        let filters = ReaderProperties::builder().set_read_bloom_filter(true);
        let options = ReadOptionsBuilder::new()
            .with_page_index()
            .with_reader_properties(filters.build());
        let again = file.try_clone()?;
        let reader = SerializedFileReader::new_with_options(again, options.build());
        Ok(Self {
            reader: reader.map_err(failed)?,
            file,
            next: 0,
        })
    }

    /// Returns the number of the batch that the file was made of, if that had a log.
    pub(super) fn batch(&self) -> Option<u64> {
        let facts = self
            .reader
            .metadata()
            .file_metadata()
            .key_value_metadata()?;
        let fact = facts.iter().find(|fact| fact.key == BATCH_KEY)?;
        fact.value.as_ref()?.parse().ok()
    }

    /// Returns the fields of the file's columns.
    pub(super) fn fields(&self) -> io::Result<Vec<&'static Field>> {
        let columns = self.reader.metadata().file_metadata().schema_descr();
        let known = |name: &str| FIELDS.iter().find(|field| field.stored_name() == name);
        let fields = columns.columns().iter().map(|column| {
            let unknown = || io::Error::other(format!("unknown column {:?}", column.name()));
            known(column.name()).ok_or_else(unknown)
        });
        fields.collect()
    }

    /// Whether the next row group stays as it is in a file with these columns: it has enough records, and filters.
    pub(super) fn is_whole(&self, fields: &[&'static Field]) -> io::Result<bool> {
        let groups = self.reader.metadata().row_groups();
        let Some(group) = groups.get(self.next) else {
            return Ok(false);
        };
        let enough = (WHOLE..=2 * GROUP).contains(&usize::try_from(group.num_rows()).unwrap_or(0));
        let mut columns = group.columns().iter();
        let has_filter = columns.any(|column| column.bloom_filter_offset().is_some());
        let same = |(one, other): (&&Field, &&Field)| one.name == other.name;
        let own = self.fields()?;
        let is_same = own.len() == fields.len() && own.iter().zip(fields).all(same);
        Ok(enough && has_filter && is_same)
    }

    /// Copies the next row group, for which [`Decoder::is_whole`], undecoded. Returns the number of its records.
    pub(super) fn copy(&mut self, to: &mut Encoder) -> io::Result<u64> {
        let before = to.rows;
        to.copy(self, self.next).map_err(failed)?;
        self.next += 1;
        Ok(to.rows - before)
    }

    /// Adds the records of the next row group. Returns false at the end.
    pub(super) fn group(&mut self, to: &mut Columns) -> io::Result<bool> {
        if self.next >= self.reader.num_row_groups() {
            return Ok(false);
        }
        let fields = self.fields()?;
        let group = self.reader.get_row_group(self.next).map_err(failed)?;
        self.next += 1;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        if rows > 2 * GROUP {
            return Err(io::Error::other("a row group is too large"));
        }
        for (field, column) in to.fields.iter().zip(&mut to.columns) {
            match fields.iter().position(|other| other.name == field.name) {
                Some(at) => read_column(&*group, at, rows, column, field.is_required()),
                None => {
                    column.push_missing(rows);
                    Ok(())
                }
            }
            .map_err(failed)?;
        }
        to.rows += rows;
        Ok(true)
    }
}

fn read_column(
    group: &dyn RowGroupReader,
    at: usize,
    rows: usize,
    column: &mut Column,
    is_required: bool,
) -> Result<(), ParquetError> {
    let Column { present, values } = column;
    match values {
        Values::Small(to) => {
            let mut found = read::<Int32Type>(group, at, rows, present, is_required)?;
            to.extend(found.by_ref().map(Option::unwrap_or_default));
        }
        Values::Large(to) => {
            let mut found = read::<Int64Type>(group, at, rows, present, is_required)?;
            to.extend(found.by_ref().map(Option::unwrap_or_default));
        }
        Values::Addresses(to) => {
            let found = read::<FixedLenByteArrayType>(group, at, rows, present, is_required)?;
            to.extend(found.map(|value| {
                let bytes = value.as_ref().map(|value| value.data());
                bytes
                    .and_then(|bytes| bytes.try_into().ok())
                    .unwrap_or([0; 16])
            }));
        }
        Values::Texts { bytes, ends } => {
            for value in read::<ByteArrayType>(group, at, rows, present, is_required)? {
                bytes.extend_from_slice(value.as_ref().map_or(&[], |value| value.data()));
                ends.push(bytes.len());
            }
        }
    }
    Ok(())
}

/// Returns the value of each record of a column, and adds whether it has one to `present`.
fn read<T: DataType>(
    group: &dyn RowGroupReader,
    at: usize,
    rows: usize,
    present: &mut Vec<i16>,
    is_required: bool,
) -> Result<impl Iterator<Item = Option<T::T>>, ParquetError> {
    let described = group.metadata().column(at).column_descr_ptr();
    if described.physical_type() != T::get_physical_type()
        || described.max_def_level() != i16::from(!is_required)
    {
        let name = described.name();
        return Err(ParquetError::General(format!(
            "column {name:?} has another type"
        )));
    }
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let (mut levels, mut values) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    while levels.len().max(values.len()) < rows {
        let missing = rows - levels.len().max(values.len());
        let wanted = (!is_required).then_some(&mut levels);
        if reader.read_records(missing, wanted, None, &mut values)?.0 == 0 {
            return Err(ParquetError::EOF("a column is too short".to_owned()));
        }
    }
    if is_required {
        levels.resize(rows, 1);
    }
    present.extend_from_slice(&levels);
    let mut values = values.into_iter();
    let value = move |level| if level == 0 { None } else { values.next() };
    Ok(levels.into_iter().map(value))
}

/// Returns an error of the library in the form of the system's: it may contain one.
pub(crate) fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}
