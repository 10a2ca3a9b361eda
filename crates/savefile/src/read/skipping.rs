//! Reading a capture without the stretches that a search passes over.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::input::{Compression, Input};
use crate::index::{SkippingFile, SkippingStream, Skips};

/// The bytes of a file, decompressed, without the stretches.
pub(super) fn open(file: File, skips: &Arc<Skips>) -> io::Result<Box<dyn Read + Send>> {
    let stream = from(&file, 0)?;
    let skips = Arc::clone(skips);
    let Some(compression) = stream.compression() else {
        return Ok(Box::new(SkippingFile { file, skips, at: 0 }));
    };
    Ok(Box::new(SkippingStream {
        stream,
        open: move |at| from(&file, at).and_then(|input| is_still(input, compression)),
        skips,
        stream_at: 0,
        at: 0,
    }))
}

fn from(file: &File, at: u64) -> io::Result<Input> {
    let file = file.try_clone()?;
    Input::new(Box::new(From { file, at }))
}

fn is_still(input: Input, compression: Compression) -> io::Result<Input> {
    if input.compression() == Some(compression) {
        return Ok(input);
    }
    let message = format!("no {compression} data begin where the index says so");
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

/// A file from a place on.
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
