//! CSV (RFC 4180) and JSON lines.

use std::io::{self, Write};

use super::Format;
use super::columns::{COLUMNS, Row, Value};
use super::whole::Whole;

/// Comma-separated values, the names of the columns first; what a record has not is empty.
pub(super) struct Csv {
    output: Whole,
    line: Vec<u8>,
}

impl Csv {
    pub(super) fn new(mut output: Whole) -> io::Result<Self> {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        let mut line = names.join(",").into_bytes();
        line.push(b'\n');
        output.push(&line, 0)?;
        Ok(Self { output, line })
    }
}

impl Format for Csv {
    fn record(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.line.clear();
        for (index, column) in COLUMNS.iter().enumerate() {
            if index > 0 {
                self.line.push(b',');
            }
            // No value contains a comma, a quote or an end of line.
            write!(self.line, "{}", (column.value)(row))?;
        }
        self.line.push(b'\n');
        self.output.push(&self.line, 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn records(&self) -> u64 {
        self.output.records()
    }
}

/// A JSON object per record and line; what a record has not is left out.
pub(super) struct JsonLines {
    output: Whole,
    line: Vec<u8>,
}

impl JsonLines {
    pub(super) fn new(output: Whole) -> Self {
        let line = Vec::new();
        Self { output, line }
    }
}

impl Format for JsonLines {
    fn record(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.line.clear();
        let mut before = b'{';
        for column in &COLUMNS {
            let value = (column.value)(row);
            if value == Value::None {
                continue;
            }
            self.line.push(before);
            before = b',';
            // Neither names nor values contain what JSON escapes.
            match value {
                Value::Number(number) => write!(self.line, "\"{}\":{number}", column.name)?,
                value => write!(self.line, "\"{}\":\"{value}\"", column.name)?,
            }
        }
        self.line.extend_from_slice(b"}\n");
        self.output.push(&self.line, 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn records(&self) -> u64 {
        self.output.records()
    }
}
