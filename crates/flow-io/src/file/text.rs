//! CSV (RFC 4180) and JSON lines.

use std::io::{self, Write};

use super::Format;
use super::columns::{COLUMNS, Row, Value};
use super::whole::Whole;

/// Writes a line for each record.
pub(super) struct TextLines {
    output: Whole,
    line: Vec<u8>,
    /// Appends a record's line.
    write: fn(&mut Vec<u8>, &Row<'_>) -> io::Result<()>,
}

impl TextLines {
    /// Starts a CSV file: comma-separated values, with the column names first. A missing value is empty.
    pub(super) fn csv(mut output: Whole) -> io::Result<Self> {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        let mut line = names.join(",").into_bytes();
        line.push(b'\n');
        output.push(&line, 0)?;
        Ok(Self {
            output,
            line,
            write: write_csv,
        })
    }

    /// Starts a JSON file: one object per record and line. A missing value is left out.
    pub(super) fn json(output: Whole) -> Self {
        Self {
            output,
            line: Vec::new(),
            write: write_json,
        }
    }
}

impl Format for TextLines {
    fn record(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.line.clear();
        (self.write)(&mut self.line, row)?;
        self.output.push(&self.line, 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn records(&self) -> u64 {
        self.output.records()
    }
}

fn write_csv(line: &mut Vec<u8>, row: &Row<'_>) -> io::Result<()> {
    for (index, column) in COLUMNS.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        // No value contains a comma, a quote or an end of line.
        if let Some(value) = column.value(row) {
            write!(line, "{value}")?;
        }
    }
    line.push(b'\n');
    Ok(())
}

fn write_json(line: &mut Vec<u8>, row: &Row<'_>) -> io::Result<()> {
    let mut before = b'{';
    for column in &COLUMNS {
        let Some(value) = column.value(row) else {
            continue;
        };
        line.push(before);
        before = b',';
        // Neither names nor values contain what JSON escapes.
        match value {
            Value::Number(number) => write!(line, "\"{}\":{number}", column.name)?,
            value => write!(line, "\"{}\":\"{value}\"", column.name)?,
        }
    }
    line.extend_from_slice(b"}\n");
    Ok(())
}
