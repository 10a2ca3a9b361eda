//! Records as messages of Protocol Buffers: values of Kafka, and files.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>. The messages are those of
//! `ringtap flow schema protobuf`. A missing value is a missing field. Code that a compiler makes from that file would
//! build an object for each record; this writes the bytes.

use ringtap_flow::schema::{EXPORTER_NUMBER, Field, Fields, Row, Storage, Value, address_bytes};

/// The form of the messages that go to Kafka.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageForm {
    /// A JSON object.
    #[default]
    Json,
    /// A message of Protocol Buffers.
    Protobuf,
}

/// The types on the wire: a number, and bytes behind their length.
const VARINT: u32 = 0;
const LENGTH: u32 = 2;

/// The fields of the messages.
pub(crate) struct Protobuf {
    fields: Vec<(&'static Field, u32)>,
}

impl Protobuf {
    /// Returns messages with the chosen fields, and the basic ones in any case.
    pub(crate) fn new(fields: Fields) -> Self {
        let chosen = fields.with(Fields::BASIC);
        Self {
            fields: chosen
                .columns()
                .map(|field| (field, field.protobuf_number()))
                .collect(),
        }
    }

    /// Appends a message.
    pub(crate) fn write(&self, to: &mut Vec<u8>, exporter: &str, row: &Row<'_>) {
        bytes(to, EXPORTER_NUMBER, exporter.as_bytes());
        for (field, number) in &self.fields {
            if let Some(value) = field.value(row) {
                write(to, *number, field.storage(), value);
            }
        }
    }
}

fn write(to: &mut Vec<u8>, number: u32, storage: Storage, value: Value<'_>) {
    match (storage, value) {
        (Storage::Text, Value::Text(word)) => bytes(to, number, word.as_bytes()),
        (Storage::Text, value) => bytes(to, number, value.to_string().as_bytes()),
        (_, Value::Address(address)) => bytes(to, number, &address_bytes(address)),
        (_, value) => {
            varint(to, u64::from(number << 3 | VARINT));
            varint(to, clamped(storage, value));
        }
    }
}

/// Returns a number as its column holds it.
pub(crate) fn clamped(storage: Storage, value: Value<'_>) -> u64 {
    let number = match value {
        Value::Number(number) | Value::Time(number) => number,
        Value::Code(code) => code.into(),
        _ => 0,
    };
    let largest = match storage {
        Storage::U8 => u8::MAX.into(),
        Storage::U16 => u16::MAX.into(),
        Storage::U32 => u32::MAX.into(),
        _ => i64::MAX.unsigned_abs(),
    };
    number.min(largest)
}

fn bytes(to: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(to, u64::from(number << 3 | LENGTH));
    varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// Appends a number in groups of 7 bits, the lowest first (LEB128).
pub(crate) fn varint(to: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = (number & 0x7f).to_le_bytes();
        number >>= 7;
        to.push(if number > 0 { low | 0x80 } else { low });
        if number == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use ringtap_flow::FlowRecord;

    use super::*;

    #[test]
    fn a_missing_value_is_a_missing_field() {
        let record = FlowRecord::default();
        let mut message = Vec::new();
        Protobuf::new(Fields::BASIC).write(&mut message, "p", &Row::new(&record));
        // The name of the exporter has number 99 and wire type 2.
        assert_eq!(message[..4], [0x9a, 0x06, 1, b'p']);
        // The time of the first packet, 0, has number 1.
        assert_eq!(message[4..6], [1 << 3, 0]);
        let with_reverse = FlowRecord {
            reverse: Some(record.forward),
            ..record
        };
        let mut longer = Vec::new();
        Protobuf::new(Fields::BASIC).write(&mut longer, "p", &Row::new(&with_reverse));
        assert!(longer.len() > message.len() + 10);
    }

    #[test]
    fn numbers_have_groups_of_seven_bits() {
        let mut bytes = Vec::new();
        for number in [0, 127, 300, u64::MAX] {
            varint(&mut bytes, number);
        }
        assert_eq!(bytes[..4], [0, 127, 0xac, 0x02]);
        assert_eq!(bytes.len(), 4 + 10);
    }
}
