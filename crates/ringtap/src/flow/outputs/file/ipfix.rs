//! IPFIX files (RFC 5655): messages of IPFIX one after the other.

use std::io::{self, Write};
use std::time::Duration;

use ringtap_flow::export::{Encoder, ExportOptions, Message, Version};

use super::Format;
use super::columns::Row;

/// Nothing limits a message of a file but its length field; readers take memory for one.
const MESSAGE: u16 = 16_384;

/// A file whose templates stand at its beginning, and before the first record that needs another.
pub(super) struct Ipfix<W> {
    output: W,
    encoder: Encoder,
    result: io::Result<()>,
    /// The latest time of a record, which is what the headers tell.
    time_ns: u64,
}

impl<W: Write> Ipfix<W> {
    pub(super) fn new(output: W, options: &ExportOptions) -> io::Result<Self> {
        let encoder = Encoder::new(ExportOptions {
            version: Version::Ipfix,
            max_message: MESSAGE,
            refresh: None,
            // A file is not read before it is whole.
            hold: Duration::MAX,
            ..*options
        });
        Ok(Self {
            output,
            encoder: encoder.map_err(io::Error::other)?,
            result: Ok(()),
            time_ns: 0,
        })
    }

    fn take_result(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.result, Ok(()))
    }
}

impl<W: Write + Send> Format for Ipfix<W> {
    fn record(&mut self, row: &Row<'_>) -> io::Result<()> {
        let (output, result) = (&mut self.output, &mut self.result);
        let mut sink = |message: Message<'_>| write(output, result, &message);
        self.time_ns = self.time_ns.max(row.record.forward.last_ns);
        self.encoder.advance(self.time_ns, &mut sink);
        self.encoder.record(row.record, &mut sink);
        self.take_result()
    }

    fn finish(&mut self) -> io::Result<()> {
        let (output, result) = (&mut self.output, &mut self.result);
        self.encoder.finish(&mut |message: Message<'_>| {
            write(output, result, &message);
        });
        self.take_result()?;
        self.output.flush()
    }
}

/// Writes a message, unless one before it failed.
fn write(output: &mut impl Write, result: &mut io::Result<()>, message: &Message<'_>) {
    if result.is_ok() {
        *result = output.write_all(message.bytes);
    }
}
