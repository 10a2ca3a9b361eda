//! Records as rows of ClickHouse's format RowBinary.
//!
//! Source: <https://clickhouse.com/docs/interfaces/formats/RowBinary>. Numbers are little-endian, text has its length
//! first (LEB128), a nullable value has a byte first that is 1 for null. The types are those of
//! `ringtap flow schema clickhouse`.

use ringtap_flow::schema::{Field, Fields, Row, Storage, Value, address_bytes};

use crate::protobuf::{clamped, varint};

/// The columns of an insert, and how its rows are written.
pub(super) struct Rows {
    fields: Vec<&'static Field>,
}

impl Rows {
    /// Returns the columns of the chosen fields, and the basic ones in any case.
    pub(super) fn new(fields: Fields) -> Self {
        Self {
            fields: fields.with(Fields::BASIC).columns().collect(),
        }
    }

    /// Returns the statement that inserts rows into a table.
    pub(super) fn statement(&self, table: &str) -> String {
        let names: Vec<_> = self
            .fields
            .iter()
            .map(|field| field.stored_name())
            .collect();
        format!(
            "INSERT INTO {table} (exporter, {}) FORMAT RowBinary",
            names.join(", ")
        )
    }

    /// Appends a row.
    pub(super) fn write(&self, to: &mut Vec<u8>, exporter: &str, row: &Row<'_>) {
        text(to, exporter);
        for field in &self.fields {
            let value = field.value(row);
            if !field.is_required() {
                to.push(value.is_none().into());
                if value.is_none() {
                    continue;
                }
            }
            write(to, field.storage(), value);
        }
    }
}

fn write(to: &mut Vec<u8>, storage: Storage, value: Option<Value<'_>>) {
    let number = value
        .map_or(0, |value| clamped(storage, value))
        .to_le_bytes();
    match storage {
        Storage::U8 => to.extend_from_slice(&number[..1]),
        Storage::U16 => to.extend_from_slice(&number[..2]),
        Storage::U32 => to.extend_from_slice(&number[..4]),
        Storage::Time | Storage::I64 => to.extend_from_slice(&number),
        Storage::Address => to.extend(match value {
            Some(Value::Address(address)) => address_bytes(address),
            _ => [0; 16],
        }),
        Storage::Text => match value {
            Some(Value::Text(word)) => text(to, word),
            Some(value) => text(to, &value.to_string()),
            None => text(to, ""),
        },
    }
}

fn text(to: &mut Vec<u8>, text: &str) {
    varint(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_its_length_first() {
        let mut bytes = Vec::new();
        text(&mut bytes, "ab");
        text(&mut bytes, &"x".repeat(300));
        assert_eq!(bytes[..5], [2, b'a', b'b', 0xac, 0x02]);
        assert_eq!(bytes.len(), 3 + 2 + 300);
    }
}
