//! Options at the end of pcapng blocks (draft-ietf-opsawg-pcapng, section 3.5).

use ringtap_packet::process::PacketProcess;
use ringtap_packet::{DropNote, Packet, PacketFlags};

use crate::ByteOrder;
use crate::pcapng::process;
use crate::read_error::ReadErrorKind;

/// Codes of options, by their block.
pub(crate) mod code {
    pub(crate) const END: u16 = 0;
    pub(crate) const COMMENT: u16 = 1;
    pub(crate) const CUSTOM: [u16; 4] = [2988, CUSTOM_BINARY, 19372, 19373];
    pub(crate) const CUSTOM_BINARY: u16 = 2989;

    pub(crate) const SHB_HARDWARE: u16 = 2;
    pub(crate) const SHB_OS: u16 = 3;
    pub(crate) const SHB_APPLICATION: u16 = 4;

    pub(crate) const IF_NAME: u16 = 2;
    pub(crate) const IF_DESCRIPTION: u16 = 3;
    pub(crate) const IF_IPV4: u16 = 4;
    pub(crate) const IF_IPV6: u16 = 5;
    pub(crate) const IF_MAC: u16 = 6;
    pub(crate) const IF_EUI: u16 = 7;
    pub(crate) const IF_SPEED: u16 = 8;
    pub(crate) const IF_TSRESOL: u16 = 9;
    pub(crate) const IF_FILTER: u16 = 11;
    pub(crate) const IF_OS: u16 = 12;
    pub(crate) const IF_FCSLEN: u16 = 13;
    pub(crate) const IF_TSOFFSET: u16 = 14;
    pub(crate) const IF_HARDWARE: u16 = 15;
    pub(crate) const IF_TXSPEED: u16 = 16;
    pub(crate) const IF_RXSPEED: u16 = 17;

    pub(crate) const EPB_FLAGS: u16 = 2;
    pub(crate) const EPB_DROPCOUNT: u16 = 4;
    pub(crate) const EPB_PACKETID: u16 = 5;
    pub(crate) const EPB_QUEUE: u16 = 6;
    pub(crate) const EPB_PROCESSID_THREADID: u16 = 8;

    pub(crate) const ISB_STARTTIME: u16 = 2;
    pub(crate) const ISB_ENDTIME: u16 = 3;
    pub(crate) const ISB_IFRECV: u16 = 4;
    pub(crate) const ISB_IFDROP: u16 = 5;
    pub(crate) const ISB_FILTERACCEPT: u16 = 6;
    pub(crate) const ISB_OSDROP: u16 = 7;
    pub(crate) const ISB_USRDELIV: u16 = 8;
}

/// The custom option of a packet that tells why the kernel dropped it: its value is [`DROP_ENTERPRISE`], then the
/// text of a [`DropNote`] in UTF-8.
pub const DROP_OPTION: u16 = 2988;
/// The private enterprise number of that option: the one that is reserved for examples (RFC 5612), since ringtap
/// has none. The text begins with a word of its own.
pub const DROP_ENTERPRISE: u32 = 32_473;

/// Code and length of an option.
const HEADER: usize = 4;

/// One option: its code and its value, without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// The code; its meaning depends on the block, except for comments (1) and custom options.
    pub code: u16,
    /// The value; its numbers have the section's byte order.
    pub value: &'a [u8],
}

/// The options of a block, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    byte_order: ByteOrder,
    bytes: &'a [u8],
}

impl<'a> Options<'a> {
    pub(crate) fn new(byte_order: ByteOrder, bytes: &'a [u8]) -> Self {
        Self { byte_order, bytes }
    }

    /// Returns options whose bytes were kept: what [`byte_order`](Self::byte_order) and
    /// [`encoded`](Self::encoded) returned.
    #[must_use]
    pub fn from_encoded(byte_order: ByteOrder, bytes: &'a [u8]) -> Self {
        Self::new(byte_order, bytes)
    }

    /// Returns an empty list of options.
    #[must_use]
    pub fn none() -> Self {
        Self::new(ByteOrder::Little, &[])
    }

    /// Returns the byte order of numbers in the values.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        self.byte_order
    }

    /// Returns the options as in their block.
    #[must_use]
    pub fn encoded(&self) -> &'a [u8] {
        self.bytes
    }

    /// Sets a packet's flags and process, which are among its options.
    #[inline]
    pub fn read_into(&self, packet: &mut Packet<'a>) {
        let order = self.byte_order;
        let (mut has_flags, mut tag) = (false, None);
        for option in self {
            match option.code {
                code::EPB_FLAGS if !has_flags => {
                    has_flags = true;
                    packet.flags = PacketFlags(order.u32_at(option.value, 0).unwrap_or(0));
                }
                code::EPB_PROCESSID_THREADID => {
                    if let (Some(pid), Some(tid)) =
                        (order.u32_at(option.value, 0), order.u32_at(option.value, 4))
                    {
                        packet.process = Some(PacketProcess {
                            pid,
                            tid,
                            tag: None,
                        });
                    }
                }
                code::CUSTOM_BINARY => tag = tag.or(process::tag_of(order, option.value)),
                _ => {}
            }
        }
        if let (Some(process), Some(tag)) = (&mut packet.process, tag) {
            process.tag = (tag.pid() == process.pid).then_some(tag);
        }
    }

    /// Returns whether there are no options.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Returns the options in the file's order, up to `opt_endofopt` or, in a damaged block, up to
    /// the first that does not fit.
    #[must_use]
    pub fn iter(&self) -> OptionsIter<'a> {
        OptionsIter(*self)
    }

    /// Returns the value of the first option with a code.
    #[must_use]
    pub fn get(&self, code: u16) -> Option<&'a [u8]> {
        self.iter()
            .find(|option| option.code == code)
            .map(|option| option.value)
    }

    /// Returns the comments (`opt_comment`); invalid UTF-8 is replaced.
    pub fn comments(&self) -> impl Iterator<Item = std::borrow::Cow<'a, str>> + use<'a> {
        self.iter()
            .filter(|option| option.code == code::COMMENT)
            .map(|option| String::from_utf8_lossy(option.value))
    }

    /// Returns why the kernel dropped the packet, if the file says so.
    #[must_use]
    pub fn drop_note(&self) -> Option<DropNote<'a>> {
        let mut custom = self.iter().filter(|option| option.code == DROP_OPTION);
        custom.find_map(|option| {
            let (enterprise, text) = option.value.split_at_checked(4)?;
            let is_it = self.byte_order.u32_at(enterprise, 0) == Some(DROP_ENTERPRISE);
            let text = std::str::from_utf8(text).ok().filter(|_| is_it)?;
            DropNote::parse(text)
        })
    }

    /// Returns the number of packets lost between this packet and the one before it on the
    /// interface (`epb_dropcount`); for options of enhanced packet blocks only.
    #[must_use]
    pub fn packet_drop_count(&self) -> Option<u64> {
        self.u64(code::EPB_DROPCOUNT)
    }

    pub(crate) fn u64(&self, code: u16) -> Option<u64> {
        self.byte_order.u64_at(self.get(code)?, 0)
    }

    /// Takes the first option; returns `None` at the end.
    pub(crate) fn take(&mut self) -> Result<Option<RawOption<'a>>, ReadErrorKind> {
        let order = self.byte_order;
        let (Some(code), Some(length)) = (order.u16_at(self.bytes, 0), order.u16_at(self.bytes, 2))
        else {
            return Ok(None);
        };
        if code == code::END {
            self.bytes = &[];
            return match length {
                0 => Ok(None),
                _ => Err(ReadErrorKind::OptionLength {
                    option: "opt_endofopt",
                    length,
                    expected: 0,
                }),
            };
        }
        let rest = &self.bytes[HEADER..];
        let padded = usize::from(length).next_multiple_of(4);
        let Some((value, rest)) = rest.split_at_checked(padded) else {
            self.bytes = &[];
            return Err(ReadErrorKind::OptionOverrun {
                code,
                length,
                room: u32::try_from(rest.len()).unwrap_or(u32::MAX),
            });
        };
        self.bytes = rest;
        Ok(Some(RawOption {
            code,
            value: &value[..usize::from(length)],
        }))
    }
}

impl<'a> IntoIterator for &Options<'a> {
    type Item = RawOption<'a>;
    type IntoIter = OptionsIter<'a>;

    fn into_iter(self) -> OptionsIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Options`].
#[derive(Clone, Debug)]
pub struct OptionsIter<'a>(Options<'a>);

impl<'a> Iterator for OptionsIter<'a> {
    type Item = RawOption<'a>;

    fn next(&mut self) -> Option<RawOption<'a>> {
        self.0.take().ok().flatten()
    }
}

/// Options kept beyond their block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawOptions {
    /// Byte order of the numbers; `None` if no value has numbers.
    byte_order: Option<ByteOrder>,
    /// The options as in a block, with codes and lengths in [`KEPT`]. They are in one piece,
    /// because a block may have millions of small options.
    encoded: Vec<u8>,
}

/// The byte order of kept codes and lengths.
const KEPT: ByteOrder = ByteOrder::Little;

impl RawOptions {
    pub(crate) fn new(byte_order: ByteOrder) -> Self {
        Self {
            byte_order: Some(byte_order),
            encoded: Vec::new(),
        }
    }

    /// Adds an option; its value is a string, or encoded in the byte order of the others. A value
    /// longer than 65535 bytes is cut; `opt_endofopt` (0) is ignored.
    pub fn push(&mut self, code: u16, value: &[u8]) {
        if code != code::END {
            encode(code, value, KEPT, &mut self.encoded);
        }
    }

    /// Adds a comment.
    pub fn push_comment(&mut self, comment: &str) {
        self.push(code::COMMENT, comment.as_bytes());
    }

    /// Returns the options in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = RawOption<'_>> {
        Options::new(KEPT, &self.encoded).iter()
    }

    /// Returns whether there are no options.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.encoded.shrink_to_fit();
    }

    /// Returns the comments; invalid UTF-8 is replaced.
    pub fn comments(&self) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
        Options::new(KEPT, &self.encoded).comments()
    }

    /// Appends the options to a block in another byte order. In custom options only the enterprise
    /// number is converted, because the rest has its own format.
    pub(crate) fn encode(&self, order: ByteOrder, out: &mut Vec<u8>) {
        for option in self.iter() {
            encode_foreign(option, self.byte_order.unwrap_or(order), order, out);
        }
    }
}

/// Appends an option of a block in byte order `from` to a block in byte order `to`.
pub(crate) fn encode_foreign(
    option: RawOption<'_>,
    from: ByteOrder,
    to: ByteOrder,
    out: &mut Vec<u8>,
) {
    let start = out.len() + HEADER;
    encode(option.code, option.value, to, out);
    if from != to && code::CUSTOM.contains(&option.code) && option.value.len() >= 4 {
        out[start..start + 4].reverse();
    }
}

/// Appends an option as [`encode_foreign`], for a packet block, whose numbers are converted too.
pub(crate) fn encode_packet_option(
    option: RawOption<'_>,
    from: ByteOrder,
    to: ByteOrder,
    out: &mut Vec<u8>,
) {
    let start = out.len() + HEADER;
    encode_foreign(option, from, to, out);
    let (number, count) = match option.code {
        code::EPB_FLAGS | code::EPB_QUEUE => (4, 1),
        code::EPB_DROPCOUNT | code::EPB_PACKETID => (8, 1),
        code::EPB_PROCESSID_THREADID => (4, 2),
        _ => return,
    };
    if from != to && option.value.len() == number * count {
        out[start..start + number * count]
            .chunks_mut(number)
            .for_each(<[u8]>::reverse);
    }
}

/// Appends an option. A value longer than 65535 bytes is cut.
pub(crate) fn encode(code: u16, value: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    let value = &value[..usize::from(length)];
    out.extend_from_slice(&order.of_u16(code));
    out.extend_from_slice(&order.of_u16(length));
    out.extend_from_slice(value);
    out.resize(out.len() + value.len().next_multiple_of(4) - value.len(), 0);
}

/// Adds the end mark to a list of options that begins at `start`, if it is not empty.
pub(crate) fn encode_end(start: usize, out: &mut Vec<u8>) {
    if out.len() > start {
        out.extend_from_slice(&[0; HEADER]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

    #[test]
    fn options_end_at_the_end_mark() {
        for order in ORDERS {
            let mut bytes = Vec::new();
            encode(code::COMMENT, b"abcde", order, &mut bytes);
            encode(7, b"", order, &mut bytes);
            encode_end(0, &mut bytes);
            encode(9, b"unseen", order, &mut bytes);
            let options = Options::new(order, &bytes);
            let list: Vec<_> = options.iter().map(|o| (o.code, o.value)).collect();
            assert_eq!(list, [(1, &b"abcde"[..]), (7, b"")]);
            assert_eq!(options.comments().collect::<Vec<_>>(), ["abcde"]);
            assert_eq!(options.get(9), None);
        }
    }

    #[test]
    fn a_drop_note_is_a_custom_option() {
        for order in ORDERS {
            let mut value = order.of_u32(DROP_ENTERPRISE).to_vec();
            value.extend_from_slice(b"ringtap-drop reason=NO_SOCKET code=3 ifindex=0");
            let mut bytes = Vec::new();
            encode(DROP_OPTION, b"\x01", order, &mut bytes);
            encode(DROP_OPTION, b"abcdringtap-drop reason=X", order, &mut bytes);
            encode(DROP_OPTION, &value, order, &mut bytes);
            let options = Options::new(order, &bytes);
            let note = options.drop_note().expect("a note");
            assert_eq!((note.reason, note.code), ("NO_SOCKET", 3));
        }
        assert_eq!(Options::none().drop_note(), None);
    }

    #[test]
    fn an_overrun_is_an_error_and_ends_the_list() {
        let bytes = [1, 0, 1, 0, b'x', 0, 0, 0, 2, 0, 9, 0, b'y', 0, 0, 0];
        let mut options = Options::new(ByteOrder::Little, &bytes);
        assert_eq!(options.iter().count(), 1);
        assert!(options.take().expect("first is whole").is_some());
        let error = options.take().expect_err("second overruns");
        assert_eq!(
            error.to_string(),
            "option 2 states 9 bytes, but the block has 4 left"
        );
        assert!(options.take().expect("ended").is_none());
    }

    #[test]
    fn an_end_mark_with_a_length_is_an_error() {
        let mut options = Options::new(ByteOrder::Big, &[0, 0, 0, 4, 1, 2, 3, 4]);
        let error = options.take().expect_err("length 4");
        assert_eq!(
            error.to_string(),
            "option opt_endofopt has 4 bytes, expected 0"
        );
    }

    #[test]
    fn enterprise_numbers_are_turned_for_the_other_byte_order() {
        let mut kept = RawOptions::new(ByteOrder::Big);
        kept.push(2989, &[0, 0, 0x12, 0x34, 9, 8]);
        kept.push_comment("c");
        let mut out = Vec::new();
        kept.encode(ByteOrder::Little, &mut out);
        let options = Options::new(ByteOrder::Little, &out);
        assert_eq!(options.get(2989), Some(&[0x34, 0x12, 0, 0, 9, 8][..]));
        assert_eq!(options.get(1), Some(&b"c"[..]));
    }

    /// A block of 16 MiB once took 360 MiB, because each option had its own allocation.
    #[test]
    fn options_are_kept_in_as_many_bytes_as_their_block_has() {
        let mut block = Vec::new();
        let mut kept = RawOptions::new(ByteOrder::Big);
        for count in 0..100_000_u32 {
            let value = &count.to_be_bytes()[..(count % 3) as usize];
            encode(code::COMMENT, value, ByteOrder::Big, &mut block);
            kept.push(code::COMMENT, value);
        }
        kept.push(code::END, b"no option");
        kept.shrink();
        assert_eq!(kept.encoded.capacity(), block.len());
        let mut out = Vec::new();
        kept.encode(ByteOrder::Big, &mut out);
        assert_eq!(out, block);
        assert_eq!(kept.iter().count(), 100_000);
    }

    #[test]
    fn a_value_too_long_is_cut() {
        let mut out = Vec::new();
        encode(1, &vec![7; 70_000], ByteOrder::Little, &mut out);
        assert_eq!(out.len(), 4 + 65_536);
        assert_eq!(
            Options::new(ByteOrder::Little, &out)
                .get(1)
                .map(<[u8]>::len),
            Some(65_535)
        );
    }
}
