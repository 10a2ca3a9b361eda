//! Name resolution blocks (draft-ietf-opsawg-pcapng, section 4.5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ByteOrder;
use crate::pcapng::options::{encode, encode_end, encode_foreign};
use crate::pcapng::section::finish_block;
use crate::pcapng::{Options, RawBlock, block_type};

/// Record types.
const RECORD_END: u16 = 0;
const RECORD_IPV4: u16 = 1;
const RECORD_IPV6: u16 = 2;
/// Type and length of a record.
const RECORD_HEADER: usize = 4;

/// Names of addresses, as the writer of the file resolved them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    pub(crate) block: RawBlock<'a>,
}

/// An address and one of its names; an address with several names has several records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRecord<'a> {
    /// The address.
    pub address: IpAddr,
    /// The name, not necessarily UTF-8.
    pub name: &'a [u8],
}

impl<'a> Names<'a> {
    /// Returns the block as it is in the file.
    #[must_use]
    pub fn block(&self) -> RawBlock<'a> {
        self.block
    }

    /// Returns the records, up to the end mark or, in a damaged block, up to the first that does
    /// not fit. Records of other types than addresses are skipped.
    #[must_use]
    pub fn records(&self) -> NameRecords<'a> {
        NameRecords {
            block: self.block,
            rest: self.block.body(),
            address: None,
            names: &[],
        }
    }

    /// Returns the options after the records.
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        let mut records = self.records();
        while records.next_record().is_some() {}
        let options = records.rest.get(RECORD_HEADER..).unwrap_or(&[]);
        Options::new(self.block.byte_order(), options)
    }
}

/// Iterator over the records of [`Names`].
#[derive(Clone, Debug)]
pub struct NameRecords<'a> {
    block: RawBlock<'a>,
    rest: &'a [u8],
    address: Option<IpAddr>,
    /// Names of the address that are not returned yet, each ended by a zero.
    names: &'a [u8],
}

impl<'a> NameRecords<'a> {
    /// Takes the next record and returns its type and value; returns `None` at the end mark, which
    /// stays.
    fn next_record(&mut self) -> Option<(u16, &'a [u8])> {
        let order = self.block.byte_order();
        let record_type = order.u16_at(self.rest, 0)?;
        let length = usize::from(order.u16_at(self.rest, 2)?);
        if record_type == RECORD_END {
            return None;
        }
        let (value, rest) =
            self.rest[RECORD_HEADER..].split_at_checked(length.next_multiple_of(4))?;
        self.rest = rest;
        Some((record_type, &value[..length]))
    }
}

impl<'a> Iterator for NameRecords<'a> {
    type Item = NameRecord<'a>;

    fn next(&mut self) -> Option<NameRecord<'a>> {
        loop {
            if let (Some(address), false) = (self.address, self.names.is_empty()) {
                let end = self.names.iter().position(|byte| *byte == 0);
                let (name, rest) = self.names.split_at(end.unwrap_or(self.names.len()));
                self.names = rest.get(1..).unwrap_or(&[]);
                if name.is_empty() {
                    continue;
                }
                return Some(NameRecord { address, name });
            }
            let (record_type, value) = self.next_record()?;
            let split = match record_type {
                RECORD_IPV4 => value
                    .split_first_chunk::<4>()
                    .map(|(address, names)| (IpAddr::V4(Ipv4Addr::from(*address)), names)),
                RECORD_IPV6 => value
                    .split_first_chunk::<16>()
                    .map(|(address, names)| (IpAddr::V6(Ipv6Addr::from(*address)), names)),
                _ => None,
            };
            if let Some((address, names)) = split {
                self.address = Some(address);
                self.names = names;
            }
        }
    }
}

/// Appends the block, unchanged if it has this byte order. Records of unknown types keep their
/// values, which have no numbers in the block's byte order.
pub(crate) fn encode_names(names: &Names<'_>, order: ByteOrder, out: &mut Vec<u8>) {
    if order == names.block.byte_order() {
        out.extend_from_slice(names.block.bytes());
        return;
    }
    let start = out.len();
    out.extend_from_slice(&order.of_u32(block_type::NAMES));
    out.extend_from_slice(&[0; 4]);
    let mut records = names.records();
    while let Some((record_type, value)) = records.next_record() {
        // Records and options have the same framing.
        encode(record_type, value, order, out);
    }
    out.extend_from_slice(&[0; RECORD_HEADER]);
    let options = out.len();
    for option in &names.options() {
        encode_foreign(option, names.block.byte_order(), order, out);
    }
    encode_end(options, out);
    finish_block(start, order, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_each_name_of_each_address() {
        let mut body = Vec::new();
        body.extend_from_slice(&[0, 1, 0, 9, 10, 0, 0, 1, b'a', 0, b'b', b'c', 0, 0, 0, 0]);
        body.extend_from_slice(&[0, 9, 0, 1, 1, 0, 0, 0]);
        body.extend_from_slice(&[0, 2, 0, 18, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        body.extend_from_slice(&[b'x', 0, 0, 0]);
        body.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 2, b'h', b'i', 0, 0]);
        let bytes = [&[0; 8][..], &body, &[0; 4]].concat();
        let block = RawBlock {
            block_type: 4,
            byte_order: ByteOrder::Big,
            bytes: &bytes,
            offset: 0,
        };
        let names = Names { block };
        let v4 = IpAddr::from([10, 0, 0, 1]);
        let v6 = IpAddr::from([1u16, 0, 0, 0, 0, 0, 0, 2]);
        let found: Vec<_> = names.records().map(|r| (r.address, r.name)).collect();
        assert_eq!(found, [(v4, &b"a"[..]), (v4, b"bc"), (v6, b"x")]);
        assert_eq!(names.options().comments().collect::<Vec<_>>(), ["hi"]);
    }

    #[test]
    fn ends_before_a_record_that_overruns() {
        let bytes = [&[0; 8][..], &[1, 0, 200, 0, 1, 2, 3, 4], &[0; 4]].concat();
        let block = RawBlock {
            block_type: 4,
            byte_order: ByteOrder::Little,
            bytes: &bytes,
            offset: 0,
        };
        assert_eq!(Names { block }.records().count(), 0);
    }
}
