//! Rewrites the records of dropped packets: a program stores numbers, a capture file names.
//!
//! A record of a ring has an option with the reason's number, the address in the kernel, interface and network
//! namespace. Its readers get a comment for people and an option with a text ([`DropNote`]) in its place.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use ringtap_packet::process::{PROCESS_ENTERPRISE, PROCESS_TAG_BYTES};
use ringtap_packet::{DropNote, Packet};
use ringtap_savefile::{Options, RunTotals, pcapng};
use ringtap_sys::netlink::Link;
use ringtap_sys::symbols::KernelSymbols;

use crate::Block;
use crate::engines::tap::program::drops::{OPTION_CODE, OPTION_MARK};

/// The memory for records that are set aside at the opening, in bytes.
const USUAL: usize = 256 << 10;
/// Codes of options (draft-ietf-opsawg-pcapng, sections 3.5 and 4.3).
const COMMENT: u16 = 1;
const FLAGS: u16 = 2;
const DROPCOUNT: u16 = 4;
const PROCESS_THREAD: u16 = 8;
/// Block type of an enhanced packet block, and its bytes before the packet.
const ENHANCED_PACKET: u32 = 6;
const HEADER: usize = 28;

/// The names for numbers in records, and the rewritten records.
#[derive(Debug)]
pub(in crate::engines::tap) struct Notes {
    reasons: &'static BTreeMap<u32, String>,
    symbols: Option<KernelSymbols>,
    /// The names of interfaces in the capture's network namespace, by index.
    interfaces: BTreeMap<u32, String>,
    /// The inode number of that namespace.
    namespace: u64,
    text: String,
    records: Vec<u8>,
}

/// The facts of a record's option.
#[derive(Clone, Copy, Debug)]
struct Facts {
    reason: u32,
    namespace: u32,
    ifindex: u32,
    location: u64,
}

impl Facts {
    /// Finds the option that the program wrote.
    fn of(options: &Options<'_>) -> Option<Self> {
        let mut options = options.iter();
        let value = options.find_map(|option| {
            let value: &[u8; 28] = option.value.try_into().ok()?;
            let is_it = option.code == OPTION_CODE && value[..4] == OPTION_MARK.to_ne_bytes();
            is_it.then_some(value)
        })?;
        let word = |at: usize| {
            u32::from_ne_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]])
        };
        let location = [word(16).to_ne_bytes(), word(20).to_ne_bytes()].concat();
        Some(Self {
            reason: word(4),
            namespace: word(8),
            ifindex: word(12),
            location: u64::from_ne_bytes(location.try_into().ok()?),
        })
    }
}

impl Notes {
    pub(super) fn new(
        reasons: &'static BTreeMap<u32, String>,
        symbols: Option<KernelSymbols>,
        namespace: u64,
        links: &[Link],
    ) -> Self {
        let mut notes = Self {
            reasons,
            symbols,
            interfaces: BTreeMap::new(),
            namespace,
            text: String::with_capacity(256),
            records: Vec::with_capacity(USUAL),
        };
        notes.name_interfaces(links);
        notes
    }

    /// Sets the names of interfaces. Those of interfaces that are gone stay, since their packets may still be
    /// in the rings.
    pub(in crate::engines::tap) fn name_interfaces(&mut self, links: &[Link]) {
        for link in links {
            let name = String::from_utf8_lossy(link.name.as_bytes()).into_owned();
            self.interfaces.insert(link.index, name);
        }
    }

    /// Rewrites the records of a block. Returns their totals; [`Notes::records`] has the records.
    pub(in crate::engines::tap) fn rewrite(
        &mut self,
        block: &Block<'_>,
        max_caplen: u32,
    ) -> RunTotals {
        self.records.clear();
        let mut totals = RunTotals {
            max_caplen,
            ..RunTotals::default()
        };
        for (packet, options) in block.packets_with_options() {
            totals.packets += 1;
            totals.captured += packet.data.len() as u64;
            self.append(&packet, &options);
        }
        totals
    }

    /// Returns the rewritten records.
    pub(in crate::engines::tap) fn records(&self) -> &[u8] {
        &self.records
    }

    fn append(&mut self, packet: &Packet<'_>, options: &Options<'_>) {
        let start = self.records.len();
        let ticks = packet.timestamp.as_nanos();
        let ticks = u64::try_from(ticks).unwrap_or_default();
        let words = [
            ENHANCED_PACKET,
            0,
            packet.interface,
            word(ticks >> 32),
            word(ticks),
            u32::try_from(packet.data.len()).unwrap_or(u32::MAX),
            packet.len,
        ];
        for word in words {
            self.records.extend_from_slice(&word.to_ne_bytes());
        }
        debug_assert_eq!(self.records.len() - start, HEADER);
        self.records.extend_from_slice(packet.data);
        self.pad();
        if let Some(facts) = Facts::of(options) {
            self.append_note(facts);
        }
        if packet.process.is_some() {
            self.append_process(options);
        }
        self.option(FLAGS, &packet.flags.0.to_ne_bytes());
        if let Some(count) = options.packet_drop_count() {
            self.option(DROPCOUNT, &count.to_ne_bytes());
        }
        self.records.extend_from_slice(&[0; 4]);
        let total = self.records.len() + 4 - start;
        let total = u32::try_from(total).unwrap_or(u32::MAX).to_ne_bytes();
        self.records.extend_from_slice(&total);
        self.records[start + 4..start + 8].copy_from_slice(&total);
    }

    /// Appends the comment and the text.
    fn append_note(&mut self, facts: Facts) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let note = self.note(facts);
        put(&mut text, format_args!("{note}"));
        let comment = text.len();
        put(&mut text, format_args!("{note:#}"));
        self.option(COMMENT, &text.as_bytes()[..comment]);
        let stored = &text.as_bytes()[comment..];
        let begin = self.records.len();
        self.records.extend_from_slice(&[0; 4]);
        self.records
            .extend_from_slice(&pcapng::DROP_ENTERPRISE.to_ne_bytes());
        self.records.extend_from_slice(stored);
        let len = u16::try_from(stored.len() + 4).unwrap_or(u16::MAX);
        self.records[begin..begin + 2].copy_from_slice(&pcapng::DROP_OPTION.to_ne_bytes());
        self.records[begin + 2..begin + 4].copy_from_slice(&len.to_ne_bytes());
        self.pad();
        self.text = text;
    }

    /// Appends the options that name the process, as they are.
    fn append_process(&mut self, options: &Options<'_>) {
        let is_tag = |code, value: &[u8]| {
            let enterprise = PROCESS_ENTERPRISE.to_ne_bytes();
            let bytes = enterprise.len() + PROCESS_TAG_BYTES;
            code == OPTION_CODE && value.len() == bytes && value.starts_with(&enterprise)
        };
        for option in options {
            if option.code == PROCESS_THREAD || is_tag(option.code, option.value) {
                self.option(option.code, option.value);
            }
        }
    }

    /// Returns the facts with their names.
    fn note(&self, facts: Facts) -> DropNote<'_> {
        let reason = self.reasons.get(&facts.reason);
        let place = self.symbols.as_ref();
        let place = place.and_then(|symbols| symbols.locate(facts.location));
        let namespace = (facts.namespace != 0).then_some(u64::from(facts.namespace));
        let is_foreign = namespace.is_some_and(|namespace| namespace != self.namespace);
        let interface = self.interfaces.get(&facts.ifindex).filter(|_| !is_foreign);
        DropNote {
            reason: reason.map_or("", String::as_str),
            code: facts.reason,
            symbol: place.map(|(symbol, _)| symbol),
            offset: place.map_or(0, |(_, offset)| offset),
            address: place.is_none().then_some(facts.location),
            interface: interface.map(String::as_str),
            ifindex: facts.ifindex,
            namespace,
            is_foreign,
        }
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.records.extend_from_slice(&code.to_ne_bytes());
        self.records.extend_from_slice(&len.to_ne_bytes());
        self.records.extend_from_slice(value);
        self.pad();
    }

    /// Records have whole words of four bytes.
    fn pad(&mut self) {
        let len = self.records.len().next_multiple_of(4);
        self.records.resize(len, 0);
    }
}

/// Writes to a text, which cannot fail.
fn put(text: &mut String, arguments: fmt::Arguments<'_>) {
    let _ = text.write_fmt(arguments);
}

/// Returns the lower half.
fn word(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default()
}
