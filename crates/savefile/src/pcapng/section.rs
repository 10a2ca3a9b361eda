//! Section header blocks (draft-ietf-opsawg-pcapng, section 4.1).

use crate::pcapng::block::{HEADER, TRAILER};
use crate::pcapng::options::{Options, RawOptions, code, encode, encode_end};
use crate::pcapng::{FRAME, block_type};
use crate::read_error::ReadErrorKind;
use crate::{ByteOrder, Format};

/// Bytes of a section header block without options, the least there can be.
pub(crate) const SECTION_MIN: usize = FRAME + 16;
/// Number of bytes at the start of the block with its type, length and byte order.
pub(crate) const MAGIC_BYTES: usize = 12;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Section length that means "not stated".
const NO_LENGTH: u64 = u64::MAX;
const MAJOR: u16 = 1;

/// A section of a pcapng file: its header's description of the machine and program that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Byte order of the section's numbers.
    pub byte_order: ByteOrder,
    /// Bytes of the section after its header, if stated. The reader does not rely on it.
    pub length: Option<u64>,
    /// Hardware of the machine (`shb_hardware`).
    pub hardware: Option<String>,
    /// Operating system of the machine (`shb_os`).
    pub os: Option<String>,
    /// Program that wrote the section (`shb_userappl`).
    pub application: Option<String>,
    /// All other options, raw.
    pub other: RawOptions,
}

impl Default for Section {
    /// Creates a section in this machine's byte order without further information.
    fn default() -> Self {
        Self::new(ByteOrder::NATIVE)
    }
}

impl Section {
    /// Creates a section in a byte order without further information.
    #[must_use]
    pub fn new(byte_order: ByteOrder) -> Self {
        Self {
            byte_order,
            length: None,
            hardware: None,
            os: None,
            application: None,
            other: RawOptions::new(byte_order),
        }
    }

    /// Parses a complete section header block of at least [`SECTION_MIN`] bytes. Like libpcap, it
    /// checks the minor version only in the `first` section of a file.
    pub(crate) fn parse(
        block: &[u8],
        byte_order: ByteOrder,
        first: bool,
    ) -> Result<Self, ReadErrorKind> {
        let major = byte_order.u16_at(block, 12).unwrap_or(0);
        let minor = byte_order.u16_at(block, 14).unwrap_or(0);
        // Some tools write version 1.2 for 1.0.
        if major != MAJOR || (first && minor != 0 && minor != 2) {
            return Err(ReadErrorKind::Version {
                format: Format::Pcapng,
                major,
                minor,
                supported: "1.0 and 1.2",
            });
        }
        let mut section = Self::new(byte_order);
        section.length = byte_order
            .u64_at(block, 16)
            .filter(|length| *length != NO_LENGTH);
        let options = block.get(24..block.len() - TRAILER).unwrap_or(&[]);
        for option in &Options::new(byte_order, options) {
            let text = || Some(String::from_utf8_lossy(option.value).into_owned());
            match option.code {
                code::SHB_HARDWARE if section.hardware.is_none() => section.hardware = text(),
                code::SHB_OS if section.os.is_none() => section.os = text(),
                code::SHB_APPLICATION if section.application.is_none() => {
                    section.application = text();
                }
                other => section.other.push(other, option.value),
            }
        }
        Ok(section)
    }

    /// Appends the block in the section's byte order, without the section's length.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let order = self.byte_order;
        let start = out.len();
        out.extend_from_slice(&order.of_u32(block_type::SECTION));
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&order.of_u32(BYTE_ORDER_MAGIC));
        out.extend_from_slice(&order.of_u16(MAJOR));
        out.extend_from_slice(&order.of_u16(0));
        out.extend_from_slice(&order.of_u64(NO_LENGTH));
        let options = out.len();
        let texts = [
            (code::SHB_HARDWARE, &self.hardware),
            (code::SHB_OS, &self.os),
            (code::SHB_APPLICATION, &self.application),
        ];
        for (code, text) in texts {
            if let Some(text) = text {
                encode(code, text.as_bytes(), order, out);
            }
        }
        self.other.encode(order, out);
        encode_end(options, out);
        finish_block(start, order, out);
    }
}

/// Returns the byte order of a section, from its header's first 12 bytes.
pub(crate) fn section_byte_order(start: &[u8]) -> Result<ByteOrder, ReadErrorKind> {
    let found = start
        .get(HEADER..)
        .and_then(|magic| magic.first_chunk())
        .copied()
        .unwrap_or_default();
    [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| order.u32(found) == BYTE_ORDER_MAGIC)
        .ok_or(ReadErrorKind::ByteOrderMagic { found })
}

/// Adds the lengths to a block that begins at `start` and is otherwise complete.
pub(crate) fn finish_block(start: usize, order: ByteOrder, out: &mut Vec<u8>) {
    let length = out.len() - start + TRAILER;
    let length = order.of_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out[start + 4..start + HEADER].copy_from_slice(&length);
    out.extend_from_slice(&length);
}
