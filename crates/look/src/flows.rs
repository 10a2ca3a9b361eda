//! The flows that are listed: those under way and those that ended lately, in a table of a fixed size.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use ringtap_flow::{EndReason, FlowKey, FlowRecord, TcpCounts, TcpMeasures, Traffic, Tunnel};
use ringtap_packet::protocol::TCP;

use crate::delta::Delta;
use crate::label::{self, has_ports};

/// Slots that are looked at to find the flow that makes room.
const LOOKS: usize = 24;
const SYN: u16 = 2;

/// The key that all parts of a flow share, whichever end began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    a: (IpAddr, u16),
    b: (IpAddr, u16),
    protocol: u8,
    vlan: Option<u16>,
    inner_vlan: Option<u16>,
    input: u32,
    tunnel: Option<Tunnel>,
}

impl Ends {
    fn of(key: &FlowKey) -> Self {
        let swaps = has_ports(key.protocol);
        let (source_port, destination_port) = match swaps {
            true => (key.source_port, key.destination_port),
            // Type and code, of both directions.
            false => (key.destination_port, key.destination_port),
        };
        let (source, destination) = (
            (key.source, source_port),
            (key.destination, destination_port),
        );
        Self {
            a: source.min(destination),
            b: source.max(destination),
            protocol: key.protocol,
            vlan: key.vlan,
            inner_vlan: key.inner_vlan,
            input: key.input,
            tunnel: key.tunnel,
        }
    }
}

/// A flow of the table.
#[derive(Clone, Debug)]
pub(crate) struct ListedFlow {
    /// Its number: the slot in the lower half, and how often that was used.
    pub(crate) id: u64,
    /// The newest record, with the counters of all parts.
    pub(crate) record: FlowRecord,
    /// Retransmissions of all parts.
    pub(crate) retransmissions: u64,
    pub(crate) ended: Option<EndReason>,
    /// Whether the newest record is of the flow's first part.
    in_first_part: bool,
    ends: Ends,
}

/// The state of a flow before its newest record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    pub(crate) tcp_flags: u16,
    pub(crate) has_client_rtt: bool,
    pub(crate) has_server_rtt: bool,
    /// TCP segments of the present part.
    pub(crate) out_of_order: u64,
    pub(crate) zero_windows: u64,
    pub(crate) dns: (bool, bool),
}

/// Returns the TCP flags of both directions.
pub(crate) fn flags(record: &FlowRecord) -> u16 {
    let reverse = record.reverse.map_or(0, |reverse| reverse.tcp_flags);
    record.forward.tcp_flags | reverse
}

/// Returns the sum of a count of both directions.
pub(crate) fn both(tcp: TcpMeasures, count: impl Fn(&TcpCounts) -> u32) -> u64 {
    u64::from(count(&tcp.forward)) + u64::from(count(&tcp.reverse))
}

impl Before {
    fn of(flow: &ListedFlow) -> Self {
        let tcp = flow.record.tcp.unwrap_or_default();
        Self {
            tcp_flags: flow.flags(),
            has_client_rtt: tcp.client_rtt_ns.is_some(),
            has_server_rtt: tcp.server_rtt_ns.is_some(),
            out_of_order: both(tcp, |counts| counts.out_of_order),
            zero_windows: both(tcp, |counts| counts.zero_windows),
            dns: label::dns(&flow.record),
        }
    }
}

impl ListedFlow {
    /// Returns the TCP flags of both directions.
    pub(crate) fn flags(&self) -> u16 {
        flags(&self.record)
    }

    pub(crate) fn first_ns(&self) -> u64 {
        let reverse = self
            .record
            .reverse
            .map_or(u64::MAX, |reverse| reverse.first_ns);
        self.record.forward.first_ns.min(reverse)
    }

    pub(crate) fn last_ns(&self) -> u64 {
        let reverse = self.record.reverse.map_or(0, |reverse| reverse.last_ns);
        self.record.forward.last_ns.max(reverse)
    }

    /// Takes a later record of the same flow or of its next part.
    fn update(&mut self, record: &FlowRecord, delta: &Delta) {
        let before = std::mem::replace(&mut self.record, record.clone());
        let turned = before.key.source != record.key.source
            || before.key.source_port != record.key.source_port;
        let (mut forward, mut reverse) = (Some(before.forward), before.reverse);
        if turned {
            self.record.key = before.key;
            self.record.macs = before.macs;
            let record = &mut self.record;
            std::mem::swap(&mut record.source_process, &mut record.destination_process);
            let answers = std::mem::replace(&mut self.record.forward, NONE);
            let asked = self.record.reverse.replace(answers);
            self.record.forward = asked.unwrap_or(NONE);
        }
        // Counters are those of the flow so far and what is new; all else is of both.
        let new = if turned {
            [delta.reverse, delta.forward]
        } else {
            [delta.forward, delta.reverse]
        };
        join(&mut self.record.forward, forward.take(), new[0]);
        if self.record.reverse.is_some() || reverse.is_some() {
            let mut now = self.record.reverse.unwrap_or(NONE);
            join(&mut now, reverse.take(), new[1]);
            self.record.reverse = Some(now);
        }
        match (&mut self.record.tcp, before.tcp) {
            (Some(now), Some(before)) => {
                now.server_rtt_ns = now.server_rtt_ns.or(before.server_rtt_ns);
                now.client_rtt_ns = now.client_rtt_ns.or(before.client_rtt_ns);
            }
            (now, before) => *now = now.or(before),
        }
        // The application that the first part of a flow named stays.
        let (now, known) = (self.record.application, before.application);
        self.record.application = match self.in_first_part {
            true => now.or(known),
            false => known.or(now),
        };
        // The processes of an earlier part stay until packets name others.
        let (now, known) = (&mut self.record, &before);
        for (now, known) in [
            (&mut now.source_process, &known.source_process),
            (&mut now.destination_process, &known.destination_process),
        ] {
            if now.is_none() {
                now.clone_from(known);
            }
        }
        self.retransmissions += u64::from(delta.retransmissions);
    }
}

const NONE: Traffic = Traffic {
    packets: 0,
    bytes: 0,
    first_ns: u64::MAX,
    last_ns: 0,
    tcp_flags: 0,
    min_ttl: u8::MAX,
    max_ttl: 0,
    min_length: u16::MAX,
    max_length: 0,
};

fn join(now: &mut Traffic, before: Option<Traffic>, (packets, bytes): (u64, u64)) {
    let before = before.unwrap_or(NONE);
    now.packets = before.packets.saturating_add(packets);
    now.bytes = before.bytes.saturating_add(bytes);
    now.first_ns = now.first_ns.min(before.first_ns);
    now.last_ns = now.last_ns.max(before.last_ns);
    now.tcp_flags |= before.tcp_flags;
    now.min_ttl = now.min_ttl.min(before.min_ttl);
    now.max_ttl = now.max_ttl.max(before.max_ttl);
    now.min_length = now.min_length.min(before.min_length);
    now.max_length = now.max_length.max(before.max_length);
}

/// The table.
#[derive(Debug)]
pub(crate) struct FlowTable {
    slots: Vec<ListedFlow>,
    index: HashMap<Ends, u32, RandomState>,
    capacity: usize,
    hand: usize,
    unlisted: u64,
}

impl FlowTable {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::new(),
            index: HashMap::default(),
            capacity: capacity.max(1),
            hand: 0,
            unlisted: 0,
        }
    }

    /// Takes a record with what is new in it; returns what was known of the flow before.
    pub(crate) fn take(&mut self, record: &FlowRecord, delta: &Delta, ended: bool) -> Before {
        let ends = Ends::of(&record.key);
        let mut before = None;
        let at = match self.index.get(&ends) {
            Some(&at) => {
                let at = at as usize;
                // A later flow between the same ends is another one. Segments of TCP that begin none are late
                // ones of the flow that has ended.
                let over = |flow: &ListedFlow| {
                    let is_cut = flow.ended == Some(EndReason::Active);
                    let is_late = record.key.protocol == TCP && flags(record) & SYN == 0;
                    delta.is_first && flow.ended.is_some() && !is_cut && !is_late
                };
                match self.slots.get(at) {
                    Some(flow) if over(flow) => self.renew(at, ends, record, delta),
                    Some(flow) => before = Some(Before::of(flow)),
                    None => {}
                }
                at
            }
            None => self.insert(ends, record, delta),
        };
        if let Some(flow) = self.slots.get_mut(at) {
            flow.in_first_part &= !delta.is_first || before.is_none();
            flow.update(record, delta);
            flow.ended = ended.then_some(record.end);
        }
        before.unwrap_or_default()
    }

    /// Makes room for a flow.
    fn insert(&mut self, ends: Ends, record: &FlowRecord, delta: &Delta) -> usize {
        let at = if self.slots.len() < self.capacity {
            self.slots.len()
        } else {
            self.victim()
        };
        self.renew(at, ends, record, delta);
        at
    }

    /// Puts a flow, whose counters begin at nothing, into a slot.
    fn renew(&mut self, at: usize, ends: Ends, record: &FlowRecord, delta: &Delta) {
        let mut record = record.clone();
        // Traffic from before the flow's entry in the table stays counted.
        let before = |traffic: &mut Traffic, (packets, bytes): (u64, u64)| {
            traffic.packets = traffic.packets.saturating_sub(packets);
            traffic.bytes = traffic.bytes.saturating_sub(bytes);
        };
        before(&mut record.forward, delta.forward);
        if let Some(reverse) = &mut record.reverse {
            before(reverse, delta.reverse);
        }
        let used = self.slots.get(at).map_or(0, |flow| (flow.id >> 32) + 1);
        let flow = ListedFlow {
            id: used << 32 | at as u64,
            retransmissions: 0,
            record,
            ended: None,
            in_first_part: true,
            ends,
        };
        match self.slots.get_mut(at) {
            Some(slot) => {
                self.index.remove(&slot.ends);
                *slot = flow;
            }
            None => self.slots.push(flow),
        }
        self.index
            .insert(ends, u32::try_from(at).unwrap_or(u32::MAX));
    }

    /// Returns the flow that makes room: one that has ended, else the one without packets for longest.
    fn victim(&mut self) -> usize {
        let mut best = (self.hand, (false, u64::MAX));
        for look in 0..LOOKS.min(self.slots.len()) {
            let at = (self.hand + look) % self.slots.len();
            let flow = &self.slots[at];
            let rank = (flow.ended.is_none(), flow.last_ns());
            if look == 0 || rank < best.1 {
                best = (at, rank);
            }
        }
        self.hand = (self.hand + LOOKS) % self.slots.len();
        if best.1.0 {
            self.unlisted += 1;
        }
        best.0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ListedFlow> {
        self.slots.iter()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&ListedFlow> {
        let at = usize::try_from(id & u64::from(u32::MAX)).ok()?;
        self.slots.get(at).filter(|flow| flow.id == id)
    }

    /// Flows under way that left the table, because it was full.
    pub(crate) fn unlisted(&self) -> u64 {
        self.unlisted
    }
}
