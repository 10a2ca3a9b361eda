//! lz4's frame format, through `lz4_flex`.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lz4_flex::frame::{BlockMode, BlockSize, Error, FrameDecoder, FrameEncoder, FrameInfo};

use super::starts::Starts;
use super::{Chunks, Decode, LZ4_END, LZ4_HEADER, LZ4_MAGIC};
use crate::index::SeekPoint;

/// Returns a compressor, whose chunks are blocks of one frame.
pub(super) fn compressor() -> Box<dyn Chunks> {
    Box::new(FrameEncoder::with_frame_info(info(), Vec::new()))
}

/// Returns the frame of [`LZ4_HEADER`].
fn info() -> FrameInfo {
    FrameInfo::new()
        .block_mode(BlockMode::Independent)
        .block_size(BlockSize::Max4MB)
        .block_checksums(true)
}

/// Returns a decoder of all frames of `source`, of which `consumed` bytes were read, including those in the
/// buffer.
pub(super) fn decoder(
    source: BufReader<impl Read + Send + 'static>,
    consumed: Arc<AtomicU64>,
) -> Box<dyn Decode> {
    Box::new(Frames {
        state: State::Between(EndNoting {
            inner: source,
            ended: false,
        }),
        consumed,
        given: 0,
        starts: Starts::default(),
    })
}

impl Chunks for FrameEncoder<Vec<u8>> {
    fn compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.get_mut().clear();
        self.write_all(chunk)?;
        self.try_finish()?;
        let frame = self.get_ref();
        let blocks = frame
            .len()
            .checked_sub(LZ4_END.len())
            .and_then(|end| frame.get(LZ4_HEADER.len()..end));
        out.extend_from_slice(blocks.unwrap_or_default());
        Ok(())
    }
}

/// lz4 frames one after another, which the decoder gives one at a time.
///
/// The decoder ends a frame in the same way when its end mark comes and when the file ends between two
/// blocks. The source distinguishes the two: only in the second case was it asked for bytes and had none.
struct Frames<R: Read> {
    state: State<R>,
    /// Bytes read of the file, those in the buffer among them.
    consumed: Arc<AtomicU64>,
    given: u64,
    starts: Starts,
}

type Frame<R> = FrameDecoder<EndNoting<BufReader<R>>>;

enum State<R: Read> {
    Between(EndNoting<BufReader<R>>),
    /// Each frame has its own decoder, whose memory fits the frame's blocks.
    Within(Box<Frame<R>>),
    /// An error was given.
    Failed,
}

struct EndNoting<R> {
    inner: R,
    ended: bool,
}

impl<R: Read> Read for EndNoting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buf)?;
        self.ended |= count == 0 && !buf.is_empty();
        Ok(count)
    }
}

impl<R: Read> Frames<R> {
    /// Goes to the next frame; none at the end of the file.
    fn start_frame(
        &mut self,
        mut source: EndNoting<BufReader<R>>,
    ) -> io::Result<Option<Box<Frame<R>>>> {
        let buffered = loop {
            match source.inner.fill_buf() {
                Ok(buffered) => break buffered,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.state = State::Between(source);
                    return Err(error);
                }
            }
        };
        if buffered.is_empty() {
            self.state = State::Between(source);
            return Ok(None);
        }
        // A skippable frame does not show that lz4 follows.
        if buffered.starts_with(&LZ4_MAGIC.to_le_bytes()) {
            let at = self.consumed.load(Ordering::Relaxed) - buffered.len() as u64;
            self.starts.note(at, self.given);
        }
        Ok(Some(Box::new(FrameDecoder::new(source))))
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            let mut decoder = match std::mem::replace(&mut self.state, State::Failed) {
                State::Failed => return Err(io::ErrorKind::InvalidData.into()),
                State::Within(decoder) => decoder,
                State::Between(source) => match self.start_frame(source)? {
                    Some(decoder) => decoder,
                    None => return Ok(0),
                },
            };
            match decoder.read(buf) {
                Ok(0) if decoder.get_ref().ended => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the stream ends within a frame",
                    ));
                }
                Ok(0) => self.state = State::Between(decoder.into_inner()),
                Ok(count) => {
                    self.given += count as u64;
                    self.state = State::Within(decoder);
                    return Ok(count);
                }
                Err(error) if is_transient(&error) => {
                    self.state = State::Within(decoder);
                    return Err(error);
                }
                Err(error) => {
                    let mut source = decoder.into_inner();
                    skip_user_frame(error, &mut source.inner)?;
                    self.state = State::Between(source);
                }
            }
        }
    }
}

impl<R: Read + Send> Decode for Frames<R> {
    fn seek_point(&self, uncompressed: u64) -> Option<SeekPoint> {
        self.starts.before(uncompressed)
    }
}

/// Returns whether the decoder can be asked again.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

/// Skips the content of a skippable frame, whose header the decoder has just read and reported as an error.
/// Returns other errors unchanged.
fn skip_user_frame(error: io::Error, source: &mut impl Read) -> io::Result<()> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(Error::SkippableFrame(length)) = inner else {
        return Err(error);
    };
    let length = u64::from(*length);
    let skipped = io::copy(&mut source.take(length), &mut io::sink())?;
    if skipped < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_frame_is_the_library_s() {
        let mut encoder = FrameEncoder::with_frame_info(info(), Vec::new());
        encoder.write_all(b"x").unwrap();
        encoder.try_finish().unwrap();
        assert!(encoder.get_ref().starts_with(&LZ4_HEADER));
    }
}
