//! Cut-offs: which packets are kept whole, as headers, or only while their flow is young.
//!
//! Data in: each packet of a device. Data out: the decision, and the sums of the packets that are not kept
//! ([`Tally`]), so that those kept, those cut and those lost are all packets. [`table`] knows the flows.

mod table;

use ringtap_capture::{Interface, LinkType, Packet};
use ringtap_packet::headers::Headers;
use ringtap_packet::headers::ip::{Ip, Part};
use ringtap_packet::protocol;
use ringtap_record::archive::{Cut, nanos};

use super::error::RecorderError;
use super::trigger::Programs;
use crate::cli::CutArgs;
use table::{FLOWS, Key, Table, Turn};

/// The treatment of the packets of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Keep,
    /// Keep the headers up to the transport layer's.
    Headers,
    /// Keep the first bytes of each flow.
    First(u64),
}

/// A rule for the packets that a filter accepts, or for all.
struct Rule {
    filter: Option<Programs>,
    action: Action,
}

/// The packets that were cut in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) cut: Cut,
    /// The times of the first and the last one.
    pub(super) times: Option<(i64, i64)>,
}

/// The rules of a device.
pub(super) struct Cutoffs {
    rules: Vec<Rule>,
    links: Vec<LinkType>,
    flows: Table,
    tally: Tally,
    shortened: Cut,
}

impl Cutoffs {
    /// Compiles the rules for a device's interfaces. `None` if there are none.
    ///
    /// # Errors
    /// A filter is invalid, or not for the link type.
    pub(super) fn new(
        args: &CutArgs,
        interfaces: &[Interface],
    ) -> Result<Option<Self>, RecorderError> {
        let keep = args.keep.iter().map(|text| (Some(text), Action::Keep));
        let headers = args
            .headers
            .iter()
            .map(|text| (Some(text), Action::Headers));
        let first = |has_filter: bool| {
            let some = args.cutoff.iter();
            let some = some.filter(move |one| one.filter.is_some() == has_filter);
            some.map(|one| (one.filter.as_ref(), Action::First(one.bytes)))
        };
        let all = keep.chain(headers).chain(first(true)).chain(first(false));
        let rules = all.map(|(text, action)| {
            let filter = text.map(|text| Programs::new(text, interfaces));
            let filter = filter.transpose()?;
            Ok(Rule { filter, action })
        });
        let mut cutoffs = Self {
            rules: rules.collect::<Result<_, RecorderError>>()?,
            links: interfaces.iter().map(|one| one.link_type).collect(),
            flows: Table::new(0),
            tally: Tally::default(),
            shortened: Cut::default(),
        };
        let has_flows = |rule: &Rule| matches!(rule.action, Action::First(_));
        if cutoffs.rules.iter().any(has_flows) {
            cutoffs.flows = Table::new(FLOWS);
        }
        Ok((!cutoffs.rules.is_empty()).then_some(cutoffs))
    }

    /// Compiles the rules for interfaces that are new.
    pub(super) fn interfaces(&mut self, interfaces: &[Interface]) {
        let new = interfaces.iter().skip(self.links.len());
        self.links.extend(new.map(|interface| interface.link_type));
        let filters = self.rules.iter_mut();
        let filters = filters.filter_map(|rule| rule.filter.as_mut());
        filters.for_each(|filter| filter.interfaces(interfaces));
    }

    /// Decides whether a packet is kept, and shortens it if only its headers are.
    #[inline]
    pub(super) fn keeps(&mut self, packet: &mut Packet<'_>) -> bool {
        let interface = packet.interface as usize;
        let rule = self.rules.iter().find(|rule| {
            let filter = rule.filter.as_ref();
            filter.is_none_or(|filter| filter.accepts(packet))
        });
        let action = rule.map_or(Action::Keep, |rule| rule.action);
        if action == Action::Keep {
            return true;
        }
        let Some(&link) = self.links.get(interface) else {
            return true;
        };
        let headers = Headers::of(link, packet.data, packet.len as usize);
        let Some(ip) = headers.ip else { return true };
        match action {
            Action::Keep => true,
            Action::Headers => {
                self.shorten(packet, &ip);
                true
            }
            Action::First(bytes) => self.is_young(packet, &ip, bytes),
        }
    }

    fn shorten(&mut self, packet: &mut Packet<'_>, ip: &Ip) {
        let end = end_of_headers(packet.data, ip);
        if let Some(headers) = packet.data.get(..end) {
            self.shortened.packets += 1;
            self.shortened.bytes += (packet.data.len() - end) as u64;
            packet.data = headers;
        }
    }

    /// Returns whether the packet's flow has had fewer bytes before. Fragments that have no ports are kept.
    fn is_young(&mut self, packet: &Packet<'_>, ip: &Ip, bytes: u64) -> bool {
        let Some((key, turn)) = flow(packet, ip) else {
            return true;
        };
        let now = packet.timestamp.secs();
        let before = self.flows.add(&key, u64::from(packet.len), now, turn);
        if before < bytes {
            return true;
        }
        let at = nanos(packet.timestamp);
        let tally = &mut self.tally;
        tally.cut.packets += 1;
        tally.cut.bytes += u64::from(packet.len);
        let times = tally.times.unwrap_or((at, at));
        tally.times = Some((times.0.min(at), times.1.max(at)));
        false
    }

    /// Returns the packets that were cut since the last call.
    pub(super) fn take(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Gives back packets of which no note could be made.
    pub(super) fn give_back(&mut self, tally: Tally) {
        let mine = &mut self.tally;
        mine.cut.add(tally.cut);
        mine.times = match (mine.times, tally.times) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    /// Returns the number of flows that were evicted.
    pub(super) fn evicted(&self) -> u64 {
        self.flows.evicted()
    }

    /// Returns the packets of which only the headers were kept, and the captured bytes that were not.
    pub(super) fn shortened(&self) -> Cut {
        self.shortened
    }
}

/// Returns the end of the transport layer's header.
fn end_of_headers(data: &[u8], ip: &Ip) -> usize {
    let Some(at) = ip.transport else {
        return ip.at + ip.headers as usize;
    };
    at + match ip.protocol {
        protocol::TCP => {
            let words = data.get(at + 12).map_or(5, |byte| byte >> 4);
            usize::from(words.max(5)) * 4
        }
        protocol::UDP | protocol::UDP_LITE | protocol::ICMP | protocol::ICMPV6 => 8,
        protocol::SCTP | protocol::DCCP => 12,
        _ => 0,
    }
}

/// Returns the flow of a packet. `None` for a fragment, whose ports are in another one.
fn flow(packet: &Packet<'_>, ip: &Ip) -> Option<(Key, Turn)> {
    const SYN_ACK: u8 = 0x12;
    const SYN: u8 = 0x02;
    const FIN_RST: u8 = 0x05;
    if ip.part != Part::Whole {
        return None;
    }
    let data = packet.data;
    let at = ip.transport;
    let field = |from: usize, len: usize| data.get(at? + from..at? + from + len);
    let has_ports = matches!(
        ip.protocol,
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP | protocol::DCCP
    );
    let ports = match has_ports {
        true => [field(0, 2)?, field(2, 2)?],
        false => [&[0, 0][..]; 2],
    };
    let [source, destination] = ip.addresses().map(|range| data.get(range));
    let mut ends = [(source?, ports[0]), (destination?, ports[1])];
    ends.sort_unstable();
    let mut key = [0; 40];
    for (place, (address, port)) in ends.into_iter().enumerate() {
        key.get_mut(place * 18..place * 18 + address.len())?
            .copy_from_slice(address);
        key.get_mut(place * 18 + 16..place * 18 + 18)?
            .copy_from_slice(port);
    }
    key[36] = ip.protocol;
    key[37] = if ip.six { 6 } else { 4 };
    let interface = u16::try_from(packet.interface).unwrap_or(u16::MAX);
    key[38..].copy_from_slice(&interface.to_le_bytes());
    let flags = match ip.protocol {
        protocol::TCP => field(13, 1).map_or(0, |flags| flags[0]),
        _ => 0,
    };
    let turn = Turn {
        begins: flags & SYN_ACK == SYN,
        ends: flags & FIN_RST != 0,
    };
    Some((key, turn))
}
