//! DNS messages: parsed while they are written, without collecting anything.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Shown;
use crate::bytes::{Bytes, Result, Truncated};
use crate::dns::names::{self, Name};
use crate::dns::{HEADER, type_name};

const A: u16 = 1;
const AAAA: u16 = 28;
const TXT: u16 = 16;
const MX: u16 = 15;
const SRV: u16 = 33;

#[derive(Serialize)]
pub(super) struct Dns<'a> {
    id: u16,
    response: bool,
    opcode: u8,
    rcode: u8,
    authoritative: bool,
    truncated: bool,
    recursion_desired: bool,
    recursion_available: bool,
    questions: Section<'a>,
    answers: Section<'a>,
}

impl<'a> Dns<'a> {
    /// Returns the message in `data`; `None` if the header is incomplete.
    pub(super) fn of(data: &'a [u8]) -> Option<Self> {
        let flags = data.u16_at(2).ok()?;
        let (questions, answers) = (data.u16_at(4).ok()?, data.u16_at(6).ok()?);
        data.part(0, HEADER).ok()?;
        let bit = |bit: u16| flags & bit != 0;
        let [high, low] = flags.to_be_bytes();
        Some(Self {
            id: data.u16_at(0).ok()?,
            response: bit(0x8000),
            opcode: high >> 3 & 15,
            rcode: low & 15,
            authoritative: bit(0x0400),
            truncated: bit(0x0200),
            recursion_desired: bit(0x0100),
            recursion_available: bit(0x0080),
            questions: Section {
                data,
                skipped: 0,
                count: questions,
                record: false,
            },
            answers: Section {
                data,
                skipped: questions,
                count: answers,
                record: true,
            },
        })
    }
}

/// The most entries printed of a section. A hostile message can state thousands, each with a name
/// that is longer than the message.
const MAX_ENTRIES: u16 = 64;

/// The entries of a section one after another, until one is damaged or missing.
struct Entries<'a> {
    data: &'a [u8],
    at: usize,
    left: u16,
    record: bool,
}

impl<'a> Entries<'a> {
    fn read(&mut self) -> Result<Entry<'a>> {
        let (data, name) = (self.data, self.at);
        let after = names::skip(data, name)?;
        let fixed = if self.record { 10 } else { 4 };
        data.part(after, fixed)?;
        let (ttl, size) = if self.record {
            (
                Some(data.u32_at(after + 4)?),
                usize::from(data.u16_at(after + 8)?),
            )
        } else {
            (None, 0)
        };
        let begin = after + fixed;
        data.part(begin, size)?;
        self.at = begin + size;
        Ok(Entry {
            data,
            name,
            kind: data.u16_at(after)?,
            class: data.u16_at(after + 2)?,
            ttl,
            begin,
            size,
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.read().ok()
    }
}

/// A question or a record in place.
struct Entry<'a> {
    data: &'a [u8],
    name: usize,
    kind: u16,
    class: u16,
    /// The time to live of a record.
    ttl: Option<u32>,
    begin: usize,
    size: usize,
}

impl Entry<'_> {
    fn head<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(
            "name",
            &Shown(Name {
                message: self.data,
                at: self.name,
            }),
        )?;
        match type_name(self.kind) {
            Some(name) => map.serialize_entry("type", name)?,
            None => map.serialize_entry("type", &Shown(format_args!("TYPE{}", self.kind)))?,
        }
        map.serialize_entry("class", &self.class)
    }

    fn data<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        const NAMES: [u16; 4] = [2, 5, 12, 39];
        let body = self.data.rest(self.begin).up_to(self.size);
        let name = |offset| {
            Shown(Name {
                message: self.data,
                at: self.begin + offset,
            })
        };
        match self.kind {
            A => match body.array_at::<4>(0) {
                Ok(octets) => map.serialize_entry("data", &Shown(Ipv4Addr::from(octets))),
                Err(Truncated) => Ok(()),
            },
            AAAA => match body.array_at::<16>(0) {
                Ok(octets) => map.serialize_entry("data", &Shown(Ipv6Addr::from(octets))),
                Err(Truncated) => Ok(()),
            },
            TXT => map.serialize_entry("data", &Shown(body.escape_ascii())),
            MX if self.size > 2 => map.serialize_entry("data", &name(2)),
            SRV if self.size > 6 => map.serialize_entry("data", &name(6)),
            kind if NAMES.contains(&kind) => map.serialize_entry("data", &name(0)),
            _ => Ok(()),
        }
    }
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.head(&mut map)?;
        if let Some(ttl) = self.ttl {
            map.serialize_entry("ttl", &ttl)?;
            self.data(&mut map)?;
        }
        map.end()
    }
}

/// The questions of a message, or its answers.
struct Section<'a> {
    data: &'a [u8],
    /// The number of questions before it.
    skipped: u16,
    count: u16,
    record: bool,
}

impl Serialize for Section<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries = Entries {
            data: self.data,
            at: HEADER,
            left: self.skipped,
            record: false,
        };
        if entries.by_ref().count() == usize::from(self.skipped) {
            entries.left = self.count.min(MAX_ENTRIES);
            entries.record = self.record;
        } else {
            entries.left = 0;
        }
        serializer.collect_seq(entries)
    }
}
