//! Messages of Protocol Buffers, each behind its length, as ClickHouse's format Protobuf and most libraries read them.

use std::io;

use ringtap_flow::schema::{Fields, Row};

use super::Format;
use super::whole::Whole;
use crate::protobuf::{Protobuf, varint};

/// Writes a message for each record.
pub(super) struct Messages {
    output: Whole,
    messages: Protobuf,
    /// The name of records that were metered here.
    exporter: String,
    message: Vec<u8>,
    piece: Vec<u8>,
}

impl Messages {
    pub(super) fn new(output: Whole, fields: Fields, exporter: &str) -> Self {
        Self {
            output,
            messages: Protobuf::new(fields),
            exporter: exporter.to_owned(),
            message: Vec::new(),
            piece: Vec::new(),
        }
    }
}

impl Format for Messages {
    fn record(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.message.clear();
        let exporter = row.exporter_name(&self.exporter);
        self.messages.write(&mut self.message, &exporter, row);
        self.piece.clear();
        varint(&mut self.piece, self.message.len() as u64);
        self.piece.extend_from_slice(&self.message);
        self.output.push(&self.piece, 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn records(&self) -> u64 {
        self.output.records()
    }
}
