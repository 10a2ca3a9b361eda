//! The state that is remembered of exporters: templates, sampling, start time, the next sequence number. This
//! module also bounds its memory.
//!
//! Anybody can send datagrams with any source address, and invent domains and templates. So memory is counted
//! by exporter ([`Peer`]), and no exporter can push out another's state:
//!
//! - An exporter has at most [`PEER_SOURCES`] sources and [`PEER_BYTES`] bytes. Beyond that, its source that
//!   was silent longest is forgotten.
//! - All exporters together have at most [`ALL_BYTES`] bytes. Beyond that, new exporters are forgotten first,
//!   then sources of the exporter with most bytes. An established exporter within [`SHARE`] is never touched.
//! - There are at most [`PEERS`] exporters. Beyond that, those that were silent for [`IDLE`] are forgotten
//!   first, then new ones: first those without a record, and of these the ones silent longest.
//!
//! An exporter is established once it has sent records and [`TRIAL`] has passed since its first datagram. A
//! quarter of the places is kept for new exporters.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use netflow_parser::NetflowParser;
use serde::Serialize;

use super::sflow;

/// The maximum number of exporters.
pub(super) const PEERS: usize = 4_096;
/// The maximum number of established exporters among them.
const ESTABLISHED: usize = PEERS / 4 * 3;
/// The maximum number of sources of one exporter.
pub(super) const PEER_SOURCES: usize = 512;
/// The maximum number of templates of one source. Beyond that, all of them are forgotten.
pub(super) const TEMPLATES: usize = 4_096;
/// The maximum memory of one exporter, and of all together.
pub(super) const PEER_BYTES: usize = 8 << 20;
pub(super) const ALL_BYTES: usize = 128 << 20;
/// The memory that each established exporter may use, whatever others do.
const SHARE: usize = ALL_BYTES / PEERS;
/// The maximum number of fields of a template. Real exporters send a hundred or so at most.
pub(super) const FIELDS: usize = 512;
/// The maximum number of records of a set: as many as a datagram can hold.
const RECORDS: usize = 65_535;

/// The estimated memory of a source, a template and a field, in bytes.
const SOURCE_BYTES: usize = 4_096;
const TEMPLATE_BYTES: usize = 256;
const FIELD_BYTES: usize = 32;

/// How long after its first datagram an exporter is established.
const TRIAL: Duration = Duration::from_secs(60);
/// An exporter that was silent for this long is forgotten before others.
const IDLE: Duration = Duration::from_secs(1_800);

/// An exporter: an IPv4 address, or the first 64 bits of an IPv6 address, since a network usually has all
/// addresses with these bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Peer(IpAddr);

impl Peer {
    pub(super) fn of(address: IpAddr) -> Self {
        const HOST: u128 = (1 << 64) - 1;
        match address.to_canonical() {
            IpAddr::V6(v6) => Self(Ipv6Addr::from_bits(v6.to_bits() & !HOST).into()),
            v4 => Self(v4),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

/// An exporter's stream of messages: a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stream {
    pub(super) exporter: SocketAddr,
    /// The version of NetFlow or IPFIX, or [`sflow::STREAM`].
    pub(super) version: u16,
    pub(super) domain: u32,
    /// The agent that sFlow names. Quotas are by the address of the datagram, since anybody can name an agent.
    pub(super) agent: Option<IpAddr>,
}

impl Stream {
    /// Returns the stream of a datagram, by its first header. Returns `None` if it has no header.
    pub(super) fn of(from: SocketAddr, datagram: &[u8]) -> Option<Self> {
        let version = datagram
            .first_chunk()
            .map(|bytes| u16::from_be_bytes(*bytes))?;
        let word = |at: usize| {
            let bytes = datagram.get(at..)?.first_chunk()?;
            Some(u32::from_be_bytes(*bytes))
        };
        let domain = match version {
            5 => u32::from(*datagram.get(21)?),
            9 => word(16)?,
            10 => word(12)?,
            _ => return None,
        };
        Some(Self {
            exporter: SocketAddr::new(from.ip().to_canonical(), from.port()),
            version,
            domain,
            agent: None,
        })
    }

    /// Returns the stream of an agent of sFlow.
    pub(super) fn of_agent(from: SocketAddr, agent: IpAddr, sub_agent: u32) -> Self {
        Self {
            exporter: SocketAddr::new(from.ip().to_canonical(), from.port()),
            version: sflow::STREAM,
            domain: sub_agent,
            agent: Some(agent),
        }
    }

    fn peer(&self) -> Peer {
        Peer::of(self.exporter.ip())
    }
}

/// A template's number, and whether it is an options template.
pub(super) type TemplateName = (bool, u16);

/// The state of a source.
#[derive(Debug)]
struct Source {
    parser: NetflowParser,
    /// The bytes of each template.
    templates: HashMap<TemplateName, usize>,
    bytes: usize,
    used: Instant,
    /// The sequence number of the next message, if it is known.
    next: Option<u32>,
    sampling: Option<u32>,
    /// The time at which its uptime was 0, in milliseconds since 1970.
    boot_ms: Option<u64>,
}

impl Source {
    fn new(stream: Stream, now: Instant) -> Self {
        Self {
            parser: parser(stream.version),
            templates: HashMap::new(),
            bytes: SOURCE_BYTES,
            used: now,
            next: None,
            sampling: None,
            boot_ms: None,
        }
    }
}

/// Returns a new parser of the library, without templates.
fn parser(version: u16) -> NetflowParser {
    let builder = NetflowParser::builder()
        // Other messages in the datagram are not from this source.
        .with_allowed_versions(&[version])
        .with_cache_size(TEMPLATES)
        .with_max_field_count(FIELDS)
        .with_max_records_per_flowset(RECORDS)
        .with_max_error_sample_size(16);
    // The library rejects only limits of 0 and unknown versions.
    builder.build().unwrap_or_default()
}

/// The counters of one exporter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExporterCounters {
    /// Datagrams that it sent.
    pub datagrams: u64,
    /// Records of flows in them.
    pub records: u64,
    /// Its sources (domains) that were forgotten because there were too many.
    pub sources_forgotten: u64,
    /// Its templates that were forgotten because there were too many.
    pub templates_forgotten: u64,
}

/// The number of entries that were forgotten because there was no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forgotten {
    pub(super) exporters: u64,
    pub(super) sources: u64,
    pub(super) templates: u64,
}

/// The state of an exporter.
#[derive(Debug)]
struct Held {
    sources: HashMap<Stream, Source>,
    bytes: usize,
    first: Instant,
    last: Instant,
    is_established: bool,
    counters: ExporterCounters,
}

impl Held {
    fn new(now: Instant) -> Self {
        Self {
            sources: HashMap::new(),
            bytes: 0,
            first: now,
            last: now,
            is_established: false,
            counters: ExporterCounters::default(),
        }
    }

    fn is_within_quota(&self) -> bool {
        self.sources.len() <= PEER_SOURCES && self.bytes <= PEER_BYTES
    }

    /// Forgets the source that was silent longest. Returns the number of its templates, and its bytes.
    fn forget_oldest(&mut self) -> Option<(u64, usize)> {
        let oldest = self.sources.iter().min_by_key(|(_, source)| source.used);
        let stream = *oldest?.0;
        let source = self.sources.remove(&stream)?;
        self.bytes -= source.bytes;
        let templates = source.templates.len() as u64;
        self.counters.sources_forgotten += 1;
        self.counters.templates_forgotten += templates;
        Some((templates, source.bytes))
    }
}

/// An exporter in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExporterReport {
    /// Its IPv4 address, or the first 64 bits of its IPv6 address.
    pub exporter: String,
    /// The number of its sources (domains) that are remembered.
    pub sources: usize,
    /// The counters: what it sent, and what was forgotten.
    #[serde(flatten)]
    pub counters: ExporterCounters,
}

/// The state of all exporters.
#[derive(Debug, Default)]
pub(super) struct Exporters {
    peers: HashMap<Peer, Held>,
    established: usize,
    bytes: usize,
    pub(super) forgotten: Forgotten,
}

impl Exporters {
    /// Registers a datagram of the stream. Returns its parser.
    pub(super) fn datagram(&mut self, stream: Stream, now: Instant) -> &mut NetflowParser {
        let held = self.held(stream.peer(), now);
        held.last = now;
        held.counters.datagrams += 1;
        if !held.is_established
            && held.counters.records > 0
            && now.duration_since(held.first) >= TRIAL
        {
            self.establish(stream.peer());
        }
        let source = self.source(stream, now);
        source.used = now;
        &mut source.parser
    }

    fn establish(&mut self, peer: Peer) {
        if self.established < ESTABLISHED
            && let Some(held) = self.peers.get_mut(&peer)
        {
            held.is_established = true;
            self.established += 1;
        }
    }

    /// Registers the templates of a source, with the number of their fields.
    pub(super) fn templates(
        &mut self,
        stream: Stream,
        templates: impl Iterator<Item = (TemplateName, usize)>,
    ) {
        let Some(held) = self.peers.get_mut(&stream.peer()) else {
            return;
        };
        let Some(source) = held.sources.get_mut(&stream) else {
            return;
        };
        let before = source.bytes;
        for (name, fields) in templates {
            // No fields: the template is withdrawn (RFC 7011, 8.1).
            let bytes = match fields {
                0 => 0,
                fields => TEMPLATE_BYTES + fields * FIELD_BYTES,
            };
            let old = match bytes {
                0 => source.templates.remove(&name),
                bytes => source.templates.insert(name, bytes),
            };
            source.bytes = source.bytes + bytes - old.unwrap_or(0);
        }
        let forgotten = source.templates.len() as u64;
        if source.templates.len() > TEMPLATES {
            source.parser = parser(stream.version);
            source.templates = HashMap::new();
            source.bytes = SOURCE_BYTES;
            held.counters.templates_forgotten += forgotten;
            self.forgotten.templates += forgotten;
        }
        let after = source.bytes;
        held.bytes = held.bytes + after - before;
        self.bytes = self.bytes + after - before;
        self.keep_quotas(stream.peer());
    }

    /// Registers a message with sequence number `number` that counts as this many, if known. Returns how many
    /// were missing before it.
    pub(super) fn message(
        &mut self,
        stream: Stream,
        now: Instant,
        number: u32,
        counts: Option<u32>,
    ) -> u64 {
        let known = self.source(stream, now);
        let missed = known.next.map_or(0, |next| number.wrapping_sub(next));
        known.next = counts.map(|counts| number.wrapping_add(counts));
        // Backwards, or just as far forwards: reordered, or a new start.
        if missed < 1 << 31 { missed.into() } else { 0 }
    }

    /// Registers a flow record.
    pub(super) fn record(&mut self, stream: Stream) {
        if let Some(held) = self.peers.get_mut(&stream.peer()) {
            held.counters.records += 1;
        }
    }

    pub(super) fn set_sampling(&mut self, stream: Stream, one_in: u32) {
        if let Some(source) = self.known_mut(stream) {
            source.sampling = Some(one_in.max(1));
        }
    }

    /// Returns the sampling interval N (one of N packets), if the exporter has sent it.
    pub(super) fn sampling(&self, stream: Stream) -> u32 {
        let known = self.known(stream);
        known.and_then(|known| known.sampling).unwrap_or(1)
    }

    pub(super) fn set_boot(&mut self, stream: Stream, boot_ms: u64) {
        if let Some(source) = self.known_mut(stream) {
            source.boot_ms = Some(boot_ms);
        }
    }

    /// Returns the time at which its uptime was 0, in milliseconds since 1970, if the exporter has sent it.
    pub(super) fn boot_ms(&self, stream: Stream) -> Option<u64> {
        self.known(stream)?.boot_ms
    }

    /// Returns the number of exporters that are remembered.
    pub(super) fn count(&self) -> usize {
        self.peers.len()
    }

    /// Returns the exporters that lost most entries, then those that sent most, at most this many.
    pub(super) fn report(&self, most: usize) -> Vec<ExporterReport> {
        let mut peers: Vec<(&Peer, &Held)> = self.peers.iter().collect();
        peers.sort_by_key(|(peer, held)| {
            let counters = &held.counters;
            let forgotten = counters.sources_forgotten + counters.templates_forgotten;
            (std::cmp::Reverse((forgotten, counters.datagrams)), **peer)
        });
        let peers = peers.into_iter().take(most);
        peers
            .map(|(peer, held)| ExporterReport {
                exporter: peer.to_string(),
                sources: held.sources.len(),
                counters: held.counters,
            })
            .collect()
    }

    fn known(&self, stream: Stream) -> Option<&Source> {
        self.peers.get(&stream.peer())?.sources.get(&stream)
    }

    fn known_mut(&mut self, stream: Stream) -> Option<&mut Source> {
        self.peers.get_mut(&stream.peer())?.sources.get_mut(&stream)
    }

    fn held(&mut self, peer: Peer, now: Instant) -> &mut Held {
        if self.peers.len() >= PEERS && !self.peers.contains_key(&peer) {
            self.make_place(now);
        }
        self.peers.entry(peer).or_insert_with(|| Held::new(now))
    }

    /// Returns the source, and adds it if it is new.
    fn source(&mut self, stream: Stream, now: Instant) -> &mut Source {
        let peer = stream.peer();
        if self.known(stream).is_none() {
            // Room is made first, so that the new source itself is not removed.
            if self.held(peer, now).sources.len() >= PEER_SOURCES {
                self.forget_oldest_of(peer);
            }
            let held = self.held(peer, now);
            held.bytes += SOURCE_BYTES;
            held.sources.insert(stream, Source::new(stream, now));
            self.bytes += SOURCE_BYTES;
            self.keep_quotas(peer);
        }
        let held = self.held(peer, now);
        let sources = &mut held.sources;
        sources
            .entry(stream)
            .or_insert_with(|| Source::new(stream, now))
    }

    /// Keeps an exporter that has grown within its limit, and all together within theirs.
    fn keep_quotas(&mut self, peer: Peer) {
        let is_beyond = |peers: &HashMap<Peer, Held>| {
            peers.get(&peer).is_some_and(|held| !held.is_within_quota())
        };
        while is_beyond(&self.peers) && self.forget_oldest_of(peer) {}
        if self.bytes <= ALL_BYTES {
            return;
        }
        // More than needed, so that this does not run for each datagram.
        let goal = ALL_BYTES / 8 * 7;
        for newcomer in self.newcomers() {
            if self.bytes <= goal {
                return;
            }
            if newcomer != peer {
                self.forget(newcomer);
            }
        }
        while self.bytes > goal {
            let held = self.peers.iter();
            let largest = held.max_by_key(|(_, held)| held.bytes);
            match largest.map(|(peer, held)| (*peer, held.bytes)) {
                Some((largest, bytes)) if bytes > SHARE => self.forget_oldest_of(largest),
                _ => return,
            };
        }
    }

    fn forget_oldest_of(&mut self, peer: Peer) -> bool {
        let held = self.peers.get_mut(&peer);
        let Some((templates, bytes)) = held.and_then(Held::forget_oldest) else {
            return false;
        };
        self.forgotten.sources += 1;
        self.forgotten.templates += templates;
        self.bytes -= bytes;
        true
    }

    /// Returns the exporters that are not established, the least valuable first.
    fn newcomers(&self) -> Vec<Peer> {
        let peers = self.peers.iter();
        let newcomers = peers.filter(|(_, held)| !held.is_established);
        let mut newcomers: Vec<_> = newcomers
            .map(|(peer, held)| ((held.counters.records > 0, held.last), *peer))
            .collect();
        newcomers.sort_unstable();
        newcomers.into_iter().map(|(_, peer)| peer).collect()
    }

    /// Makes room for several exporters, so that this does not run for each datagram.
    fn make_place(&mut self, now: Instant) {
        let peers = self.peers.iter();
        let idle = peers.filter(|(_, held)| now.duration_since(held.last) >= IDLE);
        let idle: Vec<Peer> = idle.map(|(peer, _)| *peer).collect();
        idle.into_iter().for_each(|peer| self.forget(peer));
        if self.peers.len() >= PEERS {
            let newcomers = self.newcomers();
            let some = (newcomers.len() / 16).max(1);
            let some = newcomers.into_iter().take(some);
            some.for_each(|peer| self.forget(peer));
        }
    }

    fn forget(&mut self, peer: Peer) {
        let Some(held) = self.peers.remove(&peer) else {
            return;
        };
        let templates = held.sources.values().map(|source| source.templates.len());
        self.bytes -= held.bytes;
        self.established -= usize::from(held.is_established);
        self.forgotten.exporters += 1;
        self.forgotten.sources += held.sources.len() as u64;
        self.forgotten.templates += templates.sum::<usize>() as u64;
    }
}

#[cfg(test)]
mod tests;
