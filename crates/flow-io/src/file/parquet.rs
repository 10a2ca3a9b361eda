//! Parquet: the same columns, a row group per [`GROUP`] records, compressed with zstd.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use ringtap_flow::schema::{Field, Fields, Kind, Row, Value};

use super::Format;
use crate::store::{failed, schema};

/// The number of records in a row group: these wait in memory, 10 to 20 MiB.
const GROUP: usize = 65_536;

/// A Parquet file.
pub(super) struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    fields: Vec<&'static Field>,
    /// The records that wait for their row group, by column.
    columns: Vec<Waiting>,
    rows: usize,
    /// The number of rows in row groups.
    grouped: u64,
    /// Without its end the file cannot be read.
    broken: bool,
}

/// The values of a column, and 1 for each row that has one, else 0.
struct Waiting {
    present: Vec<i16>,
    values: Values,
}

enum Values {
    Numbers(Vec<i64>),
    Texts(Vec<ByteArray>),
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(output: W, fields: Fields) -> io::Result<Self> {
        let fields: Vec<_> = fields.columns().collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("ringtap ", env!("CARGO_PKG_VERSION")).into())
            .build();
        let schema = schema(&fields, column).map_err(failed)?;
        let writer = SerializedFileWriter::new(output, schema, Arc::new(properties));
        Ok(Self {
            writer: writer.map_err(failed)?,
            columns: fields.iter().map(|field| Waiting::new(field)).collect(),
            fields,
            rows: 0,
            grouped: 0,
            broken: false,
        })
    }

    fn checked(&mut self, written: io::Result<()>) -> io::Result<()> {
        self.broken |= written.is_err();
        written
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows) as u64;
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for column in &mut self.columns {
            column.write(&mut group).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.grouped += rows;
        Ok(())
    }
}

impl<W: Write + Send> Format for Parquet<W> {
    fn record(&mut self, row: &Row<'_>) -> io::Result<()> {
        for (field, waiting) in self.fields.iter().zip(&mut self.columns) {
            waiting.push(field.value(row));
        }
        self.rows += 1;
        if self.rows == GROUP {
            let written = self.write_group();
            return self.checked(written);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let write = |file: &mut Self| {
            file.write_group()?;
            file.writer.finish().map_err(failed)?;
            file.writer.inner_mut().flush()
        };
        let written = write(self);
        self.checked(written)
    }

    fn records(&self) -> u64 {
        if self.broken { 0 } else { self.grouped }
    }
}

impl Waiting {
    fn new(column: &Field) -> Self {
        Self {
            present: Vec::new(),
            values: match column.kind {
                Kind::Number | Kind::Time => Values::Numbers(Vec::new()),
                _ => Values::Texts(Vec::new()),
            },
        }
    }

    fn push(&mut self, value: Option<Value<'_>>) {
        self.present.push(i16::from(value.is_some()));
        let Some(value) = value else {
            return;
        };
        match (&mut self.values, value) {
            // The bits stay the same: the logical type of numbers is unsigned.
            (Values::Numbers(numbers), Value::Number(number) | Value::Time(number)) => {
                numbers.push(number.cast_signed());
            }
            (Values::Numbers(_), _) => {}
            (Values::Texts(texts), value) => {
                texts.push(ByteArray::from(value.to_string().into_bytes()));
            }
        }
    }

    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else {
            return Ok(());
        };
        let present = Some(self.present.as_slice());
        match &mut self.values {
            Values::Numbers(numbers) => {
                column
                    .typed::<Int64Type>()
                    .write_batch(numbers, present, None)?;
                numbers.clear();
            }
            Values::Texts(texts) => {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(texts, present, None)?;
                texts.clear();
            }
        }
        self.present.clear();
        column.close()
    }
}

fn column(column: &Field) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match column.kind {
        Kind::Number => (Physical::INT64, LogicalType::integer(64, false)),
        Kind::Time => (
            Physical::INT64,
            LogicalType::timestamp(true, TimeUnit::NANOS),
        ),
        _ => (Physical::BYTE_ARRAY, LogicalType::String),
    };
    let field = Type::primitive_type_builder(column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(logical))
        .build()?;
    Ok(Arc::new(field))
}
