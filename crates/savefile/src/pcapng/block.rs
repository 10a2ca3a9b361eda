//! A raw block of any type (draft-ietf-opsawg-pcapng, section 3.1).

use crate::ByteOrder;
use crate::pcapng::{Options, block_type};
use crate::read_error::{ReadErrorKind, Structure};

/// Bytes before a block's body: type and total length.
pub(crate) const HEADER: usize = 8;
/// Bytes after a block's body: the total length again.
pub(crate) const TRAILER: usize = 4;
/// Bytes of a block without a body.
pub(crate) const FRAME: usize = HEADER + TRAILER;

/// A block as it is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawBlock<'a> {
    pub(crate) block_type: u32,
    pub(crate) byte_order: ByteOrder,
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: u64,
}

impl<'a> RawBlock<'a> {
    /// Returns a block that a program has built in this machine's byte order. `None` unless `bytes` is one
    /// whole block with its lengths.
    #[must_use]
    pub fn built(bytes: &'a [u8]) -> Option<Self> {
        let byte_order = ByteOrder::NATIVE;
        let end = bytes.len().checked_sub(TRAILER)?;
        let stated = u32::try_from(bytes.len()).ok();
        let is_whole = bytes.len() >= FRAME
            && bytes.len().is_multiple_of(4)
            && byte_order.u32_at(bytes, 4) == stated
            && byte_order.u32_at(bytes, end) == stated;
        is_whole.then_some(Self {
            block_type: byte_order.u32_at(bytes, 0)?,
            byte_order,
            bytes,
            offset: 0,
        })
    }

    /// Returns the block's type.
    #[must_use]
    pub fn block_type(&self) -> u32 {
        self.block_type
    }

    /// Returns the section's byte order, which the block's numbers have.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        self.byte_order
    }

    /// Returns the whole block, with type and both lengths.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the bytes between the two lengths.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        let end = self.bytes.len().saturating_sub(TRAILER);
        self.bytes.get(HEADER..end).unwrap_or(&[])
    }

    /// Returns the block's offset, in bytes from the start of the uncompressed stream.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether programs that do not understand the block must not copy it (a custom block
    /// with the type for that).
    #[must_use]
    pub fn is_not_to_be_copied(&self) -> bool {
        self.block_type == block_type::CUSTOM_NO_COPY
    }

    /// Returns the options that begin at `at` in the body.
    pub(crate) fn options_at(&self, at: usize) -> Options<'a> {
        Options::new(self.byte_order, self.body().get(at..).unwrap_or(&[]))
    }
}

/// Returns the length of a block, checked as far as possible without the block.
pub(crate) fn check_length(
    block_type: u32,
    length: u32,
    max: usize,
) -> Result<usize, ReadErrorKind> {
    let structure = Structure::Block(block_type);
    let bytes = length as usize;
    if bytes < FRAME {
        return Err(ReadErrorKind::BlockTooShort {
            structure,
            length,
            min: u32::try_from(FRAME).unwrap_or(u32::MAX),
        });
    }
    if !bytes.is_multiple_of(4) {
        return Err(ReadErrorKind::BlockUnaligned { structure, length });
    }
    if bytes > max {
        return Err(ReadErrorKind::BlockTooLong {
            structure,
            length,
            max: max as u64,
        });
    }
    Ok(bytes)
}
