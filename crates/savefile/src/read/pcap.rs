//! Reads pcap: the header, then runs of packet records.

use crate::encoding::Visitor;
use crate::encoding::{Encoding, PcapEncoding};
use crate::pcap::{FILE_HEADER, FileHeader, Stop, walk, walk_giving};
use crate::read::walker::Walker;
use crate::read::{Filled, Found, Source};
use crate::read_error::{CaplenBound, ReadError, ReadErrorKind, Structure};
use crate::{Interface, Limits, LinkType};

pub(super) struct PcapReader {
    /// Major and minor version of the format.
    pub(super) version: (u16, u16),
    pub(super) encoding: PcapEncoding,
    max_caplen: u32,
    link_type: LinkType,
    /// Whether the file's interface was delivered as an item.
    described: bool,
}

impl PcapReader {
    pub(super) fn open(
        source: &mut Source,
        limits: &Limits,
    ) -> Result<(Self, Interface), ReadError> {
        source.require(FILE_HEADER, Structure::FileHeader)?;
        let Some(bytes) = source.buffer.bytes().first_chunk() else {
            return Err(source.truncated(Structure::FileHeader, FILE_HEADER, 0));
        };
        let header = FileHeader::parse(bytes, limits).map_err(|kind| source.error(kind))?;
        source.take(FILE_HEADER);
        let reader = Self {
            version: header.version,
            encoding: header.encoding,
            max_caplen: header.max_caplen,
            link_type: header.interface.link_type,
            described: false,
        };
        Ok((reader, header.interface))
    }

    fn walker(&self) -> Walker {
        Walker::Pcap {
            encoding: self.encoding,
            max_caplen: self.max_caplen,
        }
    }

    /// Passes packets of a mapped file to the visitor; returns their number.
    #[inline]
    pub(super) fn visit(&self, source: &mut Source, visitor: &mut impl Visitor) -> usize {
        while let Some(bytes) = source.buffer.mapped_bytes() {
            let Some(walk) = walk_giving(bytes, &self.encoding, self.max_caplen, visitor) else {
                break;
            };
            if walk.packets > 0 {
                source.take(walk.used);
                return walk.packets;
            }
            match walk.stop {
                Stop::Header { need } | Stop::Data { need, .. } if source.look_on(need) => {}
                _ => break,
            }
        }
        0
    }

    pub(super) fn next(&mut self, source: &mut Source) -> Result<Option<Found>, ReadError> {
        if !self.described {
            self.described = true;
            return Ok(Some(Found::Interface(0)));
        }
        loop {
            if let Some(found) = source.walked_ahead() {
                return Ok(Some(found));
            }
            let (bytes, starts) = source.walkable();
            let walk = walk(bytes, &self.encoding, self.max_caplen, starts);
            if walk.packets > 0 {
                return Ok(Some(source.found(&walk, Encoding::Pcap(self.encoding))));
            }
            match walk.stop {
                Stop::Caplen { caplen } => {
                    return Err(source.error(ReadErrorKind::CapturedLength {
                        structure: Structure::RecordHeader,
                        caplen,
                        max: self.max_caplen,
                        bound: CaplenBound::LinkType(self.link_type),
                    }));
                }
                Stop::Header { need } => {
                    if source.fill(need, Some(self.walker()))? == Filled::End {
                        if source.buffer.bytes().is_empty() {
                            return Ok(None);
                        }
                        return Err(source.truncated(Structure::RecordHeader, need, 0));
                    }
                }
                Stop::Data { need, header } => {
                    if source.fill(need, Some(self.walker()))? == Filled::End {
                        return Err(source.truncated(Structure::RecordData, need, header));
                    }
                }
            }
        }
    }
}
