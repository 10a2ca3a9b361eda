//! CSV (RFC 4180) and JSON lines.

use std::io::{self, Write};

use ringtap_flow::schema::{Field, Fields, Row, Value};

use super::pieces::WritePiece;
use super::whole::Whole;

/// Starts a CSV file: comma-separated values, with the column names first. A missing value is empty.
pub(super) fn csv(output: &mut Whole, fields: Fields) -> io::Result<WritePiece> {
    let columns: Vec<_> = fields.columns().collect();
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    let mut line = names.join(",").into_bytes();
    line.push(b'\n');
    output.push(&line, 0)?;
    Ok(Box::new(move |line, row| write_csv(line, &columns, row)))
}

/// Returns the writer of a JSON file: one object per record and line. A missing value is left out.
pub(super) fn json(fields: Fields) -> WritePiece {
    let columns: Vec<_> = fields.columns().collect();
    Box::new(move |line, row| write_json(line, &columns, row))
}

fn write_csv(line: &mut Vec<u8>, columns: &[&Field], row: &Row<'_>) -> io::Result<()> {
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        match column.value(row) {
            Some(Value::Text(text)) => write_quoted(line, text),
            Some(value) => write_plain(line, value)?,
            None => {}
        }
    }
    line.push(b'\n');
    Ok(())
}

/// Appends text, within quotes if it has a character that would end the field.
fn write_quoted(line: &mut Vec<u8>, text: &str) {
    let is_special = |byte| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text.bytes().any(is_special) {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            line.push(byte);
        }
        line.push(byte);
    }
    line.push(b'"');
}

/// Appends a record as an object and a line feed.
pub(crate) fn write_json(line: &mut Vec<u8>, columns: &[&Field], row: &Row<'_>) -> io::Result<()> {
    let mut before = b'{';
    for column in columns {
        let Some(value) = column.value(row) else {
            continue;
        };
        line.push(before);
        before = b',';
        // No name contains what JSON escapes.
        write!(line, "\"{}\":", column.name)?;
        match value {
            Value::Number(number) => write!(line, "{number}")?,
            Value::Text(text) => serde_json::to_writer(&mut *line, text)?,
            value => {
                line.push(b'"');
                write_plain(line, value)?;
                line.push(b'"');
            }
        }
    }
    if before == b'{' {
        line.push(before);
    }
    line.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends a value that has neither commas nor quotes.
fn write_plain(line: &mut Vec<u8>, value: Value<'_>) -> io::Result<()> {
    let Value::Time(nanos) = value else {
        return write!(line, "{value}");
    };
    let time = jiff::Timestamp::from_nanosecond(i128::from(nanos));
    let time = time.unwrap_or(jiff::Timestamp::MAX);
    write!(line, "{time:.9}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_strangers_stays_in_its_field() {
        let mut line = Vec::new();
        write_quoted(&mut line, "a,b \"c\"\n");
        line.push(b',');
        write_quoted(&mut line, "plain");
        assert_eq!(line, b"\"a,b \"\"c\"\"\n\",plain");
    }
}
