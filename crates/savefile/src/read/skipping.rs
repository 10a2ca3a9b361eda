//! Reads a capture without the stretches that a search skips.
//!
//! A compressed capture is read from the start of a member, frame or chunk ([`Codec`]). The decoder first gets
//! the header of the frame.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::input::Input;
use crate::codec::{Codec, Compression, MAGIC_LEN};
use crate::index::{SkippingFile, SkippingStream, Skips};

/// Opens the bytes of a file, decompressed, without the skipped stretches.
pub(super) fn open(file: File, skips: &Arc<Skips>) -> io::Result<Box<dyn Read + Send>> {
    let stream = Input::new(Box::new(From {
        file: file.try_clone()?,
        at: 0,
    }))?;
    let skips = Arc::clone(skips);
    let Some(compression) = stream.compression() else {
        return Ok(Box::new(SkippingFile { file, skips, at: 0 }));
    };
    Ok(Box::new(SkippingStream {
        stream,
        open: move |at| from(&file, at, compression),
        skips,
        stream_at: 0,
        at: 0,
    }))
}

/// Opens the file, decompressed from a place on.
fn from(file: &File, at: u64, compression: Compression) -> io::Result<Input> {
    let file = file.try_clone()?;
    let begins = |at, with: &[u8]| {
        let mut bytes = vec![0; with.len()];
        let read = file.read_exact_at(&mut bytes, at);
        read.is_ok() && bytes == with
    };
    let mut magic = [0; MAGIC_LEN];
    file.read_exact_at(&mut magic, at)?;
    // No block of zstd or lz4 is as long as it would be if a magic number were its header.
    let header = match (Compression::detect(&magic), compression) {
        (Some(found), _) if found == compression => &[][..],
        (_, Compression::Zstd) if begins(0, Codec::Zstd(0).begin()) => Codec::Zstd(0).begin(),
        (_, Compression::Lz4) if begins(0, Codec::Lz4.begin()) => Codec::Lz4.begin(),
        _ => {
            let message = format!("no {compression} data at the place that the index names");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    };
    Input::new(Box::new(header.chain(From { file, at })))
}

/// A file, read from a place on.
struct From {
    file: File,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
