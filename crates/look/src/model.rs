//! The model: what is known of the traffic, fed with records and asked by views.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::RandomState;
use ringtap_flow::{EndReason, FlowRecord};
use ringtap_packet::protocol::TCP;

use crate::alerts::{AlertBook, AlertOptions};
use crate::api::{self, PacketsFrom};
use crate::delta::Delta;
use crate::feed::{Lost, News, Tick};
use crate::flows::{Before, FlowTable, both, flags};
use crate::heavy::Sum;
use crate::history::{Count, History, OTHERS};
use crate::hosts::{HostTable, Mean};
use crate::label::{self, has_ports};
use crate::places::{Atlas, HostPlace, PlaceBook};
use crate::processes::ProcessBook;
use crate::top::Tops;

const SECOND: u64 = 1_000_000_000;
const RST: u16 = 4;
const SYN: u16 = 2;
/// The maximum number of distinct applications.
const APPLICATIONS: usize = 512;
/// Handshakes of so many seconds are in the mean times.
const RTT_SECONDS: usize = 60;
/// Keys of the tables of hosts, pairs and ports, of each slice of time.
const KEYS: usize = 4096;
/// The same of protocols, applications and VLANs, of which there are fewer.
const FEW_KEYS: usize = 512;

/// How much is kept, and what raises alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookOptions {
    /// Flows that are listed at most; about 500 bytes each.
    pub flows: usize,
    /// Hosts that are listed at most; about 300 bytes each.
    pub hosts: usize,
    /// Alerts.
    pub alerts: AlertOptions,
    /// The device with its engine, or the file.
    pub source: String,
    /// The name of this host.
    pub hostname: String,
    /// The program's version.
    pub version: &'static str,
    /// Whether the source is a file or several.
    pub is_file: bool,
    /// Where packets can be downloaded from. Empty where nothing is served.
    pub packets_from: Vec<PacketsFrom>,
    /// Whether the meter looks at payloads: names of flows and hosts, DNS.
    pub has_names: bool,
    /// Whether flows have processes.
    pub has_processes: bool,
}

impl Default for LookOptions {
    fn default() -> Self {
        Self {
            flows: 32_768,
            hosts: 8192,
            alerts: AlertOptions::default(),
            source: String::new(),
            hostname: String::new(),
            version: "",
            is_file: false,
            packets_from: Vec::new(),
            has_names: false,
            has_processes: false,
        }
    }
}

/// Names of applications by number.
#[derive(Debug, Default)]
pub(crate) struct Applications {
    names: Vec<String>,
    numbers: HashMap<String, u16, RandomState>,
}

impl Applications {
    /// Returns the number of a name.
    pub(crate) fn number(&mut self, name: &str) -> u16 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        if self.names.len() >= APPLICATIONS {
            return OTHERS;
        }
        let number = u16::try_from(self.names.len()).unwrap_or(OTHERS);
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Returns all names, by number.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the name of a number.
    pub(crate) fn name(&self, number: u16) -> &str {
        match self.names.get(usize::from(number)) {
            Some(name) => name,
            None => "others",
        }
    }
}

/// The application of flows of which none is known.
pub(crate) const UNKNOWN: &str = "unknown";

/// The model.
#[derive(Debug)]
pub struct Look {
    pub(crate) options: LookOptions,
    pub(crate) applications: Applications,
    pub(crate) history: History,
    pub(crate) hosts: Tops<IpAddr>,
    pub(crate) pairs: Tops<(IpAddr, IpAddr)>,
    pub(crate) by_application: Tops<u16>,
    pub(crate) protocols: Tops<u16>,
    pub(crate) ports: Tops<(u16, u16)>,
    pub(crate) vlans: Tops<u16>,
    pub(crate) places: PlaceBook,
    pub(crate) processes: ProcessBook,
    pub(crate) atlas: Option<Arc<dyn Atlas>>,
    pub(crate) host_table: HostTable,
    pub(crate) flow_table: FlowTable,
    pub(crate) book: AlertBook,
    pub(crate) sums: Sums,
    pub(crate) clock: Clock,
    pub(crate) losses: LossBook,
    pub(crate) has_history: bool,
}

/// Sums since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) all: Sum,
    pub(crate) retransmissions: u64,
    pub(crate) resets: u64,
    pub(crate) out_of_order: u64,
    pub(crate) zero_windows: u64,
    /// Whether the records say anything of TCP.
    pub(crate) has_tcp: bool,
    /// Flows with a question, and with an answer that is an error.
    pub(crate) dns: (u64, u64),
    /// Handshakes by second: the client's side and the server's.
    handshakes: VecDeque<(u64, Mean, Mean)>,
}

impl Sums {
    fn handshake(&mut self, time_ns: u64, client: Option<u64>, server: Option<u64>) {
        if client.is_none() && server.is_none() {
            return;
        }
        let second = time_ns / SECOND;
        if self
            .handshakes
            .back()
            .is_none_or(|(last, ..)| *last < second)
        {
            self.handshakes
                .push_back((second, Mean::default(), Mean::default()));
        }
        while self.handshakes.len() > RTT_SECONDS {
            self.handshakes.pop_front();
        }
        if let Some((_, clients, servers)) = self.handshakes.back_mut() {
            clients.add(client);
            servers.add(server);
        }
    }

    /// Returns the mean times of the last minute: client's and server's side.
    pub(crate) fn round_trips(&self, now_ns: u64) -> (Option<u64>, Option<u64>) {
        let from = (now_ns / SECOND).saturating_sub(RTT_SECONDS as u64);
        let (mut client, mut server) = (Mean::default(), Mean::default());
        let lately = self
            .handshakes
            .iter()
            .filter(|(second, ..)| *second >= from);
        for (_, clients, servers) in lately {
            client.join(*clients);
            server.join(*servers);
        }
        (client.get(), server.get())
    }
}

/// The last report, and the rates per second that follow from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) started_ns: u64,
    pub(crate) now_ns: u64,
    pub(crate) tick: Tick,
    pub(crate) rates: api::Rates,
}

/// Losses so far, and their rates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossBook {
    pub(crate) lost: Lost,
    /// Updates that did not get to the model.
    pub(crate) view: u64,
    /// By second, in the order of [`LAYERS`].
    pub(crate) rates: [f64; 6],
}

/// The layers in which packets are lost.
pub(crate) const LAYERS: [&str; 6] = [
    "interface",
    "before_hook",
    "hook",
    "ring",
    "sampling",
    "view",
];

impl LossBook {
    /// Returns the counts in the order of [`LAYERS`].
    pub(crate) fn counts(&self) -> [Option<u64>; 6] {
        let lost = &self.lost;
        [
            lost.interface,
            lost.before_hook,
            lost.hook,
            lost.ring,
            lost.sampling,
            Some(self.view),
        ]
    }

    /// Packets that the capture lost: not those that sampling left out.
    fn packets(&self) -> u64 {
        let [interface, _, hook, ring, ..] = self.counts();
        [interface, hook, ring].into_iter().flatten().sum()
    }
}

impl Look {
    /// Returns a model that knows nothing.
    #[must_use]
    pub fn new(options: LookOptions) -> Self {
        Self {
            applications: Applications::default(),
            history: History::default(),
            hosts: Tops::new(KEYS),
            pairs: Tops::new(KEYS),
            by_application: Tops::new(FEW_KEYS),
            protocols: Tops::new(FEW_KEYS),
            ports: Tops::new(KEYS),
            vlans: Tops::new(FEW_KEYS),
            places: PlaceBook::new(),
            processes: ProcessBook::new(),
            atlas: None,
            host_table: HostTable::new(options.hosts),
            flow_table: FlowTable::new(options.flows),
            book: AlertBook::new(options.alerts),
            sums: Sums::default(),
            clock: Clock::default(),
            losses: LossBook::default(),
            has_history: false,
            options,
        }
    }

    /// Gives the model databases about addresses. Call it before there is traffic.
    pub fn set_atlas(&mut self, atlas: Arc<dyn Atlas>) {
        self.atlas = Some(atlas);
    }

    /// Returns whether there are databases about addresses.
    #[must_use]
    pub fn has_atlas(&self) -> bool {
        self.atlas.is_some()
    }

    /// Returns whether flows have processes.
    #[must_use]
    pub fn has_processes(&self) -> bool {
        self.options.has_processes
    }

    /// Takes a record of a flow.
    pub fn news(&mut self, news: &News) {
        let News {
            record,
            reported,
            has_ended,
        } = news;
        let delta = Delta::new(record, reported);
        let reverse_ns = record.reverse.map_or(0, |reverse| reverse.last_ns);
        let time_ns = record.forward.last_ns.max(reverse_ns);
        self.advance(time_ns);
        let before = self.flow_table.take(record, &delta, *has_ended);
        let is_new = delta.is_first && before == Before::default();
        self.count(record, &delta, is_new, time_ns);
        self.processes.count(record, &delta, is_new);
        self.count_hosts(record, &delta, is_new, time_ns);
        self.count_tcp(record, &delta, before, time_ns);
        self.count_names(record, before, time_ns);
        if delta.is_first {
            self.watch(record, time_ns);
        }
    }

    fn advance(&mut self, now_ns: u64) {
        if self.clock.started_ns == 0 {
            self.clock.started_ns = now_ns;
        }
        if now_ns / SECOND > self.clock.now_ns / SECOND {
            self.hosts.advance(now_ns);
            self.pairs.advance(now_ns);
            self.by_application.advance(now_ns);
            self.protocols.advance(now_ns);
            self.ports.advance(now_ns);
            self.vlans.advance(now_ns);
            self.places.advance(now_ns);
            self.processes.tops.advance(now_ns);
        }
        self.clock.now_ns = self.clock.now_ns.max(now_ns);
    }

    fn count(&mut self, record: &FlowRecord, delta: &Delta, is_new: bool, time_ns: u64) {
        let key = &record.key;
        let sum = Sum {
            bytes: delta.bytes(),
            packets: delta.packets(),
            sent: delta.forward.1,
            flows: u64::from(is_new),
        };
        self.sums.all.add(&sum);
        let protocol = u16::from(key.protocol);
        let application = label::application(record);
        let name = application.map_or(UNKNOWN, |application| application.name);
        let application = self.applications.number(name);
        let count = Count {
            packets: sum.packets,
            bytes: sum.bytes,
        };
        self.history.add(time_ns, protocol, application, count);
        self.protocols.add(protocol, &sum);
        self.by_application.add(application, &sum);
        if has_ports(key.protocol) {
            self.ports.add((protocol, key.destination_port), &sum);
        }
        if let Some(vlan) = key.vlan {
            self.vlans.add(vlan, &sum);
        }
        let (a, b) = (key.source, key.destination);
        let mut pair = sum;
        if b < a {
            pair.sent = delta.reverse.1;
        }
        self.pairs.add((a.min(b), a.max(b)), &pair);
        if a == b {
            // A host that speaks with itself sends all of it.
            let sent = sum.bytes;
            self.hosts.add(a, &Sum { sent, ..sum });
        } else {
            self.hosts.add(a, &sum);
            let other = Sum {
                sent: delta.reverse.1,
                ..sum
            };
            self.hosts.add(b, &other);
        }
    }

    fn count_hosts(&mut self, record: &FlowRecord, delta: &Delta, is_new: bool, time_ns: u64) {
        let key = &record.key;
        let macs = record.macs;
        let tcp = record.tcp.unwrap_or_default();
        let ends = [
            (
                key.source,
                macs.map(|macs| macs.source),
                delta.forward,
                delta.reverse,
                tcp.client_rtt_ns,
            ),
            (
                key.destination,
                macs.map(|macs| macs.destination),
                delta.reverse,
                delta.forward,
                tcp.server_rtt_ns,
            ),
        ];
        let count = if key.source == key.destination { 1 } else { 2 };
        let mut places = [HostPlace::default(); 2];
        let atlas = self.atlas.clone();
        for (at, (address, mac, sent, received, rtt)) in ends.into_iter().take(count).enumerate() {
            let (host, is_new_host) = self.host_table.entry(address, time_ns);
            if is_new_host && let Some(atlas) = &atlas {
                host.place = self.places.locate(&**atlas, address);
            }
            places[at] = host.place;
            host.steps.add(time_ns, [sent.1, received.1]);
            host.first_ns = host.first_ns.min(time_ns);
            host.last_ns = host.last_ns.max(time_ns);
            host.mac = host.mac.or(mac);
            host.sent.0 += sent.0;
            host.sent.1 += sent.1;
            host.received.0 += received.0;
            host.received.1 += received.1;
            host.flows += u64::from(is_new);
            host.retransmissions += u64::from(delta.retransmissions);
            if is_new {
                host.rtt.add(rtt);
            }
            if is_new_host && self.book.host(address, time_ns) {
                self.host_table.entry(address, time_ns).0.alerts += 1;
            }
        }
        if atlas.is_some() {
            let sum = |sent: u64| Sum {
                bytes: delta.bytes(),
                packets: delta.packets(),
                sent,
                flows: u64::from(is_new),
            };
            let (forward, reverse) = (delta.forward.1, delta.reverse.1);
            let ends = [(places[0], sum(forward)), (places[1], sum(reverse))];
            self.places.add(ends, &sum(delta.bytes()));
        }
    }

    fn count_tcp(&mut self, record: &FlowRecord, delta: &Delta, before: Before, time_ns: u64) {
        let Some(tcp) = record.tcp.filter(|_| record.key.protocol == TCP) else {
            return;
        };
        self.sums.has_tcp = true;
        self.sums.retransmissions += u64::from(delta.retransmissions);
        // Counters of a part of a flow begin anew.
        let seen = if delta.is_first {
            Before::default()
        } else {
            before
        };
        let new = |now: u64, before: u64| now.saturating_sub(before);
        let out_of_order = both(tcp, |counts| counts.out_of_order);
        self.sums.out_of_order += new(out_of_order, seen.out_of_order);
        let zero_windows = both(tcp, |counts| counts.zero_windows);
        self.sums.zero_windows += new(zero_windows, seen.zero_windows);
        let client = tcp.client_rtt_ns.filter(|_| !before.has_client_rtt);
        let server = tcp.server_rtt_ns.filter(|_| !before.has_server_rtt);
        self.sums.handshake(time_ns, client, server);
        if flags(record) & RST != 0 && before.tcp_flags & RST == 0 {
            self.sums.resets += 1;
            self.host_table.entry(record.key.source, time_ns).0.resets += 1;
        }
    }

    /// Counts questions of DNS, and keeps the names of hosts.
    fn count_names(&mut self, record: &FlowRecord, before: Before, time_ns: u64) {
        let (is_dns, is_error) = label::dns(record);
        self.sums.dns.0 += u64::from(is_dns && !before.dns.0);
        self.sums.dns.1 += u64::from(is_error && !before.dns.1);
        if is_dns && (!before.dns.0 || is_error && !before.dns.1) {
            let host = self.host_table.entry(record.key.source, time_ns).0;
            host.dns.0 += u64::from(!before.dns.0);
            host.dns.1 += u64::from(is_error && !before.dns.1);
        }
        if let Some((host, name, source)) = label::host_name(record) {
            self.host_table.entry(host, time_ns).0.name(name, source);
        }
    }

    /// Looks at a flow that begins for what raises alerts.
    fn watch(&mut self, record: &FlowRecord, time_ns: u64) {
        let key = &record.key;
        if !has_ports(key.protocol) {
            return;
        }
        let refused = |flags: u16| key.protocol == TCP && flags & (RST | SYN) == RST;
        let answered = record
            .reverse
            .is_some_and(|reverse| !refused(reverse.tcp_flags));
        let ends = (key.source, key.destination, key.destination_port);
        // Answers that were read without their questions are no scan.
        let is_answer = record.reverse.is_none() && record.end == EndReason::Active;
        if !is_answer && self.book.flow(ends, answered, time_ns) {
            self.host_table.entry(key.source, time_ns).0.alerts += 1;
        }
    }

    /// Takes the time and the counters; `dropped` updates did not get here so far.
    pub fn tick(&mut self, tick: &Tick, dropped: u64) {
        let now_ns = tick.now_ns;
        self.advance(now_ns);
        self.history.advance(self.clock.now_ns);
        let before = self.clock.tick;
        let passed = now_ns.saturating_sub(before.now_ns);
        let lost = LossBook {
            lost: tick.lost,
            view: dropped,
            rates: [0.0; 6],
        };
        let new = lost.packets().saturating_sub(self.losses.packets());
        if new > 0 {
            self.history.add_lost(now_ns, new);
            self.book.lost(new, now_ns);
        }
        if passed == 0 || before.now_ns == 0 {
            // The first one, or one at the end of a file: rates stay as they are.
            let rates = self.losses.rates;
            self.losses = LossBook { rates, ..lost };
            self.clock.tick = *tick;
            return;
        }
        let per_second = |now: u64, before: u64| per_second(now.saturating_sub(before), passed);
        let (now, then) = (&tick.counters, &before.counters);
        self.clock.rates = api::Rates {
            packets_per_s: per_second(now.packets, then.packets),
            bits_per_s: 8.0 * per_second(now.ip_bytes, then.ip_bytes),
            new_flows_per_s: per_second(now.flows, then.flows),
        };
        let counts = lost.counts().into_iter().zip(self.losses.counts());
        let mut rates = [0.0; 6];
        for (rate, (now, then)) in rates.iter_mut().zip(counts) {
            *rate = per_second(now.unwrap_or(0), then.unwrap_or(0));
        }
        self.losses = LossBook { rates, ..lost };
        self.clock.tick = *tick;
        self.book.rate(self.clock.rates.bits_per_s, now_ns);
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a rate is shown with few digits"
)]
fn per_second(count: u64, passed_ns: u64) -> f64 {
    count as f64 * SECOND as f64 / passed_ns as f64
}
