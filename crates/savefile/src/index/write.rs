//! Writes an index.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::{Entry, HEADER, MAGIC, Stamp, VERSION, checksum, put_time};

/// Writes an index, entry by entry; holds one entry in memory.
pub struct IndexWriter<W: Write + Seek> {
    output: BufWriter<W>,
    entries: u64,
    packets: u64,
    bytes: u64,
    body: Vec<u8>,
}

impl<W: Write + Seek> IndexWriter<W> {
    /// Starts an index at the start of `output`. It is invalid until it is finished.
    ///
    /// # Errors
    /// Writing fails.
    pub fn new(output: W) -> io::Result<Self> {
        let mut output = BufWriter::new(output);
        let mut header = [0; HEADER];
        // The header has no version yet, but already the magic of an index.
        header[..MAGIC.len()].copy_from_slice(&MAGIC);
        output.write_all(&header)?;
        Ok(Self {
            output,
            entries: 0,
            packets: 0,
            bytes: HEADER as u64,
            body: Vec::new(),
        })
    }

    /// Adds an entry; its stretch must be after the earlier ones.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        self.body.clear();
        entry.put(&mut self.body);
        let len = u32::try_from(self.body.len()).map_err(io::Error::other)?;
        self.output.write_all(&len.to_le_bytes())?;
        self.output.write_all(&checksum(&self.body).to_le_bytes())?;
        self.output.write_all(&self.body)?;
        self.entries += 1;
        self.packets += entry.packets;
        self.bytes += (super::ENTRY_HEADER + self.body.len()) as u64;
        Ok(())
    }

    /// Returns the bytes of the index so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of packets in the entries so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Finishes the index, which is then valid for the capture with this stamp.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(self, stamp: &Stamp) -> io::Result<W> {
        let output = self.output.into_inner();
        let mut output = output.map_err(io::IntoInnerError::into_error)?;
        let mut header = Vec::with_capacity(HEADER);
        header.extend(MAGIC);
        header.push(VERSION);
        header.extend(stamp.len.to_le_bytes());
        put_time(&mut header, stamp.modified);
        header.extend([0; 4]);
        for number in [stamp.head, self.entries, self.packets] {
            header.extend(number.to_le_bytes());
        }
        header.extend(checksum(&header).to_le_bytes());
        output.seek(SeekFrom::Start(0))?;
        output.write_all(&header)?;
        output.flush()?;
        Ok(output)
    }
}
