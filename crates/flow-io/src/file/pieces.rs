//! Formats with a piece of bytes for each record: a line of text, or a message of Protocol Buffers behind its length,
//! as ClickHouse's format Protobuf and most libraries read them.

use std::io;

use ringtap_flow::schema::{Fields, Row};

use super::Format;
use super::whole::Whole;
use crate::protobuf::{Protobuf, varint};

/// Appends a record's piece.
pub(super) type WritePiece = Box<dyn FnMut(&mut Vec<u8>, &Row<'_>) -> io::Result<()> + Send>;

/// Writes a piece for each record.
pub(super) struct Pieces {
    pub(super) output: Whole,
    pub(super) piece: Vec<u8>,
    pub(super) write: WritePiece,
}

impl Format for Pieces {
    fn record(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.piece.clear();
        (self.write)(&mut self.piece, row)?;
        self.output.push(&self.piece, 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn records(&self) -> u64 {
        self.output.records
    }
}

/// Returns the writer of messages; `own` is the name of the exporter of records that were metered here.
pub(super) fn messages(fields: Fields, own: &str) -> WritePiece {
    let (messages, own) = (Protobuf::new(fields), own.to_owned());
    let mut message = Vec::new();
    Box::new(move |piece, row| {
        message.clear();
        messages.write(&mut message, &row.exporter_name(&own), row);
        varint(piece, message.len() as u64);
        piece.extend_from_slice(&message);
        Ok(())
    })
}
