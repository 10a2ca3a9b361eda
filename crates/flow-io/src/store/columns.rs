//! Records that wait in memory, by column.
//!
//! Each column has a value for every record, so that records can be written in any order; where a record has none,
//! the value is 0 or empty and `present` says so.

use std::io::Write as _;
use std::sync::Arc;

use ringtap_flow::schema::{Field, Fields, Row, Storage, Value, address_bytes};

/// Records by column.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) fields: Arc<[&'static Field]>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: usize,
    /// The bytes of all texts that were pushed.
    pub(super) text_bytes: usize,
}

/// The values of a column.
#[derive(Debug)]
pub(super) struct Column {
    /// 1 for each record that has a value, else 0.
    pub(super) present: Vec<i16>,
    pub(super) values: Values,
}

#[derive(Debug)]
pub(super) enum Values {
    Small(Vec<i32>),
    Large(Vec<i64>),
    Addresses(Vec<[u8; 16]>),
    Texts {
        bytes: Vec<u8>,
        /// Where the text of each record ends.
        ends: Vec<usize>,
    },
}

/// Returns the columns of a store: those that are chosen, and the basic ones in any case.
pub(super) fn stored(fields: Fields) -> Arc<[&'static Field]> {
    fields.with(Fields::BASIC).columns().collect()
}

impl Columns {
    pub(super) fn new(fields: Arc<[&'static Field]>) -> Self {
        let columns = fields.iter().map(|field| Column::new(field.storage()));
        Self {
            columns: columns.collect(),
            fields,
            rows: 0,
            text_bytes: 0,
        }
    }

    /// Adds a record.
    pub(super) fn push(&mut self, row: &Row<'_>) {
        for (field, column) in self.fields.iter().zip(&mut self.columns) {
            self.text_bytes += column.push(field.value(row));
        }
        self.rows += 1;
    }

    /// Removes all records.
    pub(super) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.rows = 0;
        self.text_bytes = 0;
    }

    /// Sorts numbers of records by the addresses of their sources, and those of one source by the time of their first
    /// packets: the records of a host are beside each other then, in few pages.
    pub(super) fn sort(&self, rows: &mut [u32]) {
        let (sources, firsts) = (self.named("src"), self.named("first"));
        rows.sort_by_cached_key(|&row| {
            let row = row as usize;
            let source = sources.and_then(|column| match &column.values {
                Values::Addresses(addresses) => Some((column.present[row], addresses[row])),
                _ => None,
            });
            let first = firsts.and_then(|column| match &column.values {
                Values::Large(times) => Some(times[row]),
                _ => None,
            });
            (source, first)
        });
    }

    fn named(&self, name: &str) -> Option<&Column> {
        let at = self.fields.iter().position(|field| field.name == name);
        at.map(|at| &self.columns[at])
    }
}

impl Column {
    pub(super) fn new(storage: Storage) -> Self {
        Self {
            present: Vec::new(),
            values: match storage {
                Storage::Time | Storage::I64 => Values::Large(Vec::new()),
                Storage::U8 | Storage::U16 | Storage::U32 => Values::Small(Vec::new()),
                Storage::Address => Values::Addresses(Vec::new()),
                Storage::Text => Values::Texts {
                    bytes: Vec::new(),
                    ends: Vec::new(),
                },
            },
        }
    }

    /// Adds a value. Returns the bytes of its text.
    fn push(&mut self, value: Option<Value<'_>>) -> usize {
        self.present.push(value.is_some().into());
        match &mut self.values {
            Values::Small(numbers) => numbers.push(value.map_or(0, small)),
            Values::Large(numbers) => numbers.push(value.map_or(0, large)),
            Values::Addresses(addresses) => addresses.push(match value {
                Some(Value::Address(address)) => address_bytes(address),
                _ => [0; 16],
            }),
            Values::Texts { bytes, ends } => {
                let before = bytes.len();
                match value {
                    Some(Value::Text(text)) => bytes.extend_from_slice(text.as_bytes()),
                    // A vector takes all bytes.
                    Some(value) => drop(write!(bytes, "{value}")),
                    None => {}
                }
                ends.push(bytes.len());
                return bytes.len() - before;
            }
        }
        0
    }

    /// Appends the last record's value to bytes, for [`Column::read`].
    pub(super) fn write_last(&self, out: &mut Vec<u8>) {
        let is_present = self.present.last().is_some_and(|&level| level != 0);
        out.push(is_present.into());
        if !is_present {
            return;
        }
        match &self.values {
            Values::Small(numbers) => {
                out.extend(numbers.last().copied().unwrap_or(0).to_le_bytes());
            }
            Values::Large(numbers) => {
                out.extend(numbers.last().copied().unwrap_or(0).to_le_bytes());
            }
            Values::Addresses(addresses) => {
                out.extend(addresses.last().copied().unwrap_or_default());
            }
            Values::Texts { bytes, ends } => {
                let start = ends.iter().rev().nth(1).copied().unwrap_or(0);
                let text = bytes.get(start..).unwrap_or_default();
                let length = u32::try_from(text.len()).unwrap_or(0);
                out.extend(length.to_le_bytes());
                out.extend_from_slice(text);
            }
        }
    }

    /// Adds the value of a record from bytes that [`Column::write_last`] has made. Returns `None` if they end early.
    pub(super) fn read(&mut self, from: &mut &[u8]) -> Option<()> {
        let [is_present] = take(from)?;
        if is_present == 0 {
            self.push_missing(1);
            return Some(());
        }
        match &mut self.values {
            Values::Small(numbers) => numbers.push(i32::from_le_bytes(take(from)?)),
            Values::Large(numbers) => numbers.push(i64::from_le_bytes(take(from)?)),
            Values::Addresses(addresses) => addresses.push(take(from)?),
            Values::Texts { bytes, ends } => {
                let length = usize::try_from(u32::from_le_bytes(take(from)?)).ok()?;
                let (text, rest) = from.split_at_checked(length)?;
                // Parquet promises text to its readers.
                bytes.extend_from_slice(str::from_utf8(text).ok()?.as_bytes());
                ends.push(bytes.len());
                *from = rest;
            }
        }
        self.present.push(1);
        Some(())
    }

    /// Adds records without a value.
    pub(super) fn push_missing(&mut self, count: usize) {
        let rows = self.present.len() + count;
        self.present.resize(rows, 0);
        match &mut self.values {
            Values::Small(numbers) => numbers.resize(rows, 0),
            Values::Large(numbers) => numbers.resize(rows, 0),
            Values::Addresses(addresses) => addresses.resize(rows, [0; 16]),
            Values::Texts { bytes, ends } => ends.resize(rows, bytes.len()),
        }
    }

    fn clear(&mut self) {
        self.present.clear();
        match &mut self.values {
            Values::Small(numbers) => numbers.clear(),
            Values::Large(numbers) => numbers.clear(),
            Values::Addresses(addresses) => addresses.clear(),
            Values::Texts { bytes, ends } => {
                bytes.clear();
                ends.clear();
            }
        }
    }
}

/// Takes the first bytes.
pub(super) fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}

/// Returns a number of up to 32 bits; the bits stay the same, since the column's type is unsigned.
fn small(value: Value<'_>) -> i32 {
    let number = match value {
        Value::Number(number) => u32::try_from(number).unwrap_or(u32::MAX),
        Value::Code(code) => code,
        _ => 0,
    };
    number.cast_signed()
}

fn large(value: Value<'_>) -> i64 {
    match value {
        Value::Number(number) | Value::Time(number) => i64::try_from(number).unwrap_or(i64::MAX),
        Value::Code(code) => code.into(),
        _ => 0,
    }
}
