//! Reads an index, which may be hostile.

use std::io::{self, Read};

use super::{ENTRY_HEADER, Entry, Fields, HEADER, MAGIC, MAX_ENTRY, Stamp, VERSION, checksum};

/// The reason why an index cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The index cannot be read.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// The index was not finished, or the file is not an index.
    #[error("not an index, or not a finished one")]
    NoIndex,
    /// The index has an unknown version.
    #[error("unsupported version {0}")]
    Version(u8),
    /// The index belongs to another file, or the capture was changed since.
    #[error("it was made for another file, or the file was changed since")]
    Stale,
    /// The index is damaged.
    #[error("it is damaged at offset {offset}: {what}")]
    Damaged {
        /// Bytes from the start of the index.
        offset: u64,
        /// The reason.
        what: &'static str,
    },
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Reads an index, entry by entry.
#[derive(Debug)]
pub struct IndexReader<R> {
    input: R,
    /// Number of entries left.
    left: u64,
    /// Number of packets that they must have.
    packets: u64,
    /// Number of bytes read from the index.
    offset: u64,
    /// The end of the last stretch.
    behind: u64,
    body: Vec<u8>,
}

impl<R: Read> IndexReader<R> {
    /// Starts reading an index, which must belong to that capture.
    ///
    /// # Errors
    /// The index cannot be read or cannot be used.
    pub fn new(mut input: R, capture: &Stamp) -> Result<Self, IndexError> {
        let mut header = [0; HEADER];
        if !fill(&mut input, &mut header)? {
            return Err(IndexError::NoIndex);
        }
        let parsed = parse(&header);
        let (version, stamp, left, packets) = parsed.ok_or(IndexError::NoIndex)?;
        if version != VERSION {
            return Err(IndexError::Version(version));
        }
        if !header_is_intact(&header) {
            return Err(IndexError::Damaged {
                offset: 0,
                what: "the header has another checksum",
            });
        }
        if !stamp.is_of(capture) {
            return Err(IndexError::Stale);
        }
        Ok(Self {
            input,
            left,
            packets,
            offset: HEADER as u64,
            behind: 0,
            body: Vec::new(),
        })
    }

    /// Returns the next entry; `None` after the last.
    ///
    /// # Errors
    /// The index cannot be read or is damaged. Earlier entries must then not be used either.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, IndexError> {
        if self.left == 0 {
            return match (self.packets, fill(&mut self.input, &mut [0])?) {
                (0, false) => Ok(None),
                (0, true) => Err(self.damaged("there is more than its header says")),
                _ => Err(self.damaged("there are fewer packets than its header says")),
            };
        }
        let mut header = [0; ENTRY_HEADER];
        if !fill(&mut self.input, &mut header)? {
            return Err(self.damaged("it ends early"));
        }
        let mut fields = Fields(&header);
        let (len, sum) = (fields.u32(), fields.u64());
        let len = len.and_then(|len| usize::try_from(len).ok());
        let len = len.filter(|len| *len <= MAX_ENTRY);
        let len = len.ok_or_else(|| self.damaged("an entry is too large"))?;
        self.body.resize(len, 0);
        if !fill(&mut self.input, &mut self.body)? {
            return Err(self.damaged("it ends early"));
        }
        if sum != Some(checksum(&self.body)) {
            return Err(self.damaged("an entry has another checksum"));
        }
        let entry = Entry::take(&self.body).filter(|entry| entry.offset >= self.behind);
        let entry = entry.ok_or_else(|| self.damaged("an entry is malformed"))?;
        self.behind = entry
            .end()
            .ok_or_else(|| self.damaged("an entry is beyond any file"))?;
        let packets = self.packets.checked_sub(entry.packets);
        self.packets =
            packets.ok_or_else(|| self.damaged("there are more packets than its header says"))?;
        self.offset += (ENTRY_HEADER + len) as u64;
        self.left -= 1;
        Ok(Some(entry))
    }

    fn damaged(&self, what: &'static str) -> IndexError {
        IndexError::Damaged {
            offset: self.offset,
            what,
        }
    }
}

/// Fills the buffer; returns false if the input ends before.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns version, stamp, number of entries and number of packets.
fn parse(header: &[u8; HEADER]) -> Option<(u8, Stamp, u64, u64)> {
    let mut fields = Fields(header);
    let magic: [u8; MAGIC.len()] = fields.array()?;
    if magic != MAGIC {
        return None;
    }
    let [version] = fields.array()?;
    if version == 0 {
        // The index was not finished.
        return None;
    }
    let len = fields.u64()?;
    let modified = fields.time()?;
    fields.u32()?;
    let stamp = Stamp {
        len,
        modified,
        head: fields.u64()?,
    };
    Some((version, stamp, fields.u64()?, fields.u64()?))
}

fn header_is_intact(header: &[u8; HEADER]) -> bool {
    let (fields, sum) = header.split_at(HEADER - 8);
    sum == checksum(fields).to_le_bytes()
}
