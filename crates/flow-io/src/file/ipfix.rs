//! IPFIX files (RFC 5655): messages of IPFIX one after the other.

use std::io;
use std::time::Duration;

use ringtap_flow::export::{Encoder, ExportOptions, Message, Statistics, Version};
use ringtap_flow::schema::Row;

use super::Format;
use super::whole::Whole;

/// The only limit for a message in a file is its length field; readers allocate memory for one.
const MESSAGE: u16 = 16_384;

/// A file with templates at its beginning, and before the first record that needs another one.
pub(super) struct Ipfix {
    output: Whole,
    encoder: Encoder,
    result: io::Result<()>,
    /// The latest time of a record, which the headers contain.
    time_ns: u64,
}

impl Ipfix {
    pub(super) fn new(output: Whole, options: &ExportOptions) -> io::Result<Self> {
        let encoder = Encoder::new(
            (*options)
                .version(Version::Ipfix)
                .max_message(MESSAGE)
                .refresh(None)
                // A file is not read before it is complete.
                .hold(Duration::MAX),
        );
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

impl Format for Ipfix {
    fn record(&mut self, row: &Row<'_>) -> io::Result<()> {
        let (output, result) = (&mut self.output, &mut self.result);
        let mut sink = |message: Message<'_>| write(output, result, &message);
        self.time_ns = self.time_ns.max(row.record.forward.last_ns);
        self.encoder.advance(self.time_ns, &mut sink);
        self.encoder.row(row, &mut sink);
        self.take_result()
    }

    fn set_statistics(&mut self, statistics: Statistics) {
        self.encoder.set_statistics(statistics);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn records(&self) -> u64 {
        self.output.records
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

/// Writes a message, unless an earlier one failed.
fn write(output: &mut Whole, result: &mut io::Result<()>, message: &Message<'_>) {
    if result.is_ok() {
        *result = output.push(message.bytes, message.flows.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, SeekFrom};

    use ringtap_flow::FlowRecord;

    use super::*;

    /// Option 257 is at the end: its scope in 4 bytes, the algorithm in 1, timeouts in 2 each, then six
    /// counters in 8 each.
    #[test]
    fn statistics_stand_in_the_file() {
        let mut written = tempfile::tempfile().unwrap();
        let output = Whole::new(written.try_clone().unwrap(), false);
        let mut file = Ipfix::new(output, &ExportOptions::default()).unwrap();
        let record = FlowRecord::default();
        let row = Row::new(&record);
        file.record(&row).unwrap();
        file.set_statistics(Statistics {
            active_timeout: 120,
            idle_timeout: 30,
            observed_flows: 7,
            ignored_packets: 9,
            not_sent_flows: 0,
        });
        file.finish().unwrap();
        assert_eq!(file.records(), 1);
        let mut bytes = Vec::new();
        written.seek(SeekFrom::Start(0)).unwrap();
        written.read_to_end(&mut bytes).unwrap();
        let option = bytes.last_chunk::<57>().unwrap();
        assert_eq!(option[5..9], [0, 120, 0, 30]);
        let counters: Vec<u64> = option[9..]
            .chunks(8)
            .map(|counter| u64::from_be_bytes(counter.try_into().unwrap()))
            .collect();
        // Flows sent, observed, packets left out, flows not sent.
        assert_eq!(counters[2..], [1, 7, 9, 0]);
    }
}
