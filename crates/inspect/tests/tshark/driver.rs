//! A small driver of the inspector: packets of a capture file, sorted into flows.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ringtap_inspect::{Entry, FlowState, InspectOptions, Inspector, Payload, Transport};
use ringtap_packet::bytes::{be16, be32, byte, chunk};
use ringtap_packet::headers::Headers;
use ringtap_packet::headers::ip::{Ip, Part};
use ringtap_packet::{LinkType, protocol};
use ringtap_savefile::{Item, ReadOptions, Reader};

/// The flows of a capture file.
pub(crate) struct Capture {
    pub(crate) flows: Vec<Flow>,
    /// The flow of each packet, by its number from 1; `None` without a payload of TCP or UDP.
    pub(crate) of_frame: Vec<Option<usize>>,
}

/// A flow.
pub(crate) struct Flow {
    pub(crate) entry: Entry,
    state: FlowState,
    pub(crate) initiator: SocketAddr,
    pub(crate) responder: SocketAddr,
    pub(crate) is_tcp: bool,
    /// Whether a part of it was cut off or came in fragments.
    pub(crate) is_cut: bool,
}

/// A payload with its ends.
pub(crate) struct Segment<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) data: &'a [u8],
    complete: bool,
}

/// Reads a file; `None` if it is not a capture file that can be read.
pub(crate) fn read(file: &Path) -> Option<Capture> {
    let mut inspector = Inspector::new(&InspectOptions::default()).expect("valid options");
    let mut capture = Capture {
        flows: Vec::new(),
        of_frame: vec![None],
    };
    let mut numbers = HashMap::new();
    each_packet(file, |segment, time_ns| {
        capture.take(&mut inspector, &mut numbers, segment, time_ns);
    })?;
    Some(capture)
}

/// Calls `each` with the segment or datagram of every packet of a file, and with its time.
pub(crate) fn each_packet(
    file: &Path,
    mut each: impl FnMut(Option<Segment<'_>>, u64),
) -> Option<()> {
    let mut reader = Reader::open(file, &ReadOptions::default()).ok()?;
    loop {
        let types: Vec<LinkType> = reader.interfaces().iter().map(|it| it.link_type).collect();
        match reader.next() {
            Ok(Some(Item::Run(run))) => {
                for packet in run.packets() {
                    let link_type = types[packet.interface as usize];
                    let time_ns = u64::try_from(packet.timestamp.as_nanos()).unwrap_or(0);
                    let wire = (packet.len as usize).max(packet.data.len());
                    each(segment(link_type, packet.data, wire), time_ns);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return Some(()),
        }
    }
}

/// The key of a flow: the transport, and the ends in one order.
type Key = (bool, SocketAddr, SocketAddr);

impl Capture {
    fn take(
        &mut self,
        inspector: &mut Inspector,
        numbers: &mut HashMap<Key, usize>,
        segment: Option<Segment<'_>>,
        time_ns: u64,
    ) {
        let Some(segment) = segment else {
            self.of_frame.push(None);
            return;
        };
        let is_tcp = matches!(segment.transport, Transport::Tcp { .. });
        let (source, destination) = (segment.source, segment.destination);
        let key = (is_tcp, source.min(destination), source.max(destination));
        let next = self.flows.len();
        let number = *numbers.entry(key).or_insert(next);
        if number == next {
            self.flows.push(Flow {
                entry: Entry::new(),
                state: FlowState::default(),
                initiator: source,
                responder: destination,
                is_tcp,
                is_cut: false,
            });
        }
        self.of_frame.push(Some(number));
        look(
            inspector,
            number,
            &mut self.flows[number],
            &segment,
            time_ns,
        );
    }
}

fn look(
    inspector: &mut Inspector,
    number: usize,
    flow: &mut Flow,
    segment: &Segment<'_>,
    time_ns: u64,
) {
    flow.is_cut |= !segment.complete;
    let from_initiator = segment.source == flow.initiator;
    if segment.data.is_empty() || !flow.state.wants(from_initiator) {
        return;
    }
    let payload = Payload {
        transport: segment.transport,
        from_initiator,
        initiator: flow.initiator.ip(),
        responder: flow.responder.ip(),
        initiator_port: flow.initiator.port(),
        responder_port: flow.responder.port(),
        time_ns,
        data: segment.data,
        complete: segment.complete,
    };
    let number = u32::try_from(number).expect("fewer flows");
    inspector.look(number, &mut flow.entry, &mut flow.state, &payload);
}

fn segment(link_type: LinkType, data: &[u8], wire: usize) -> Option<Segment<'_>> {
    let ip = Headers::of(link_type, data, wire).ip?;
    if matches!(ip.part, Part::Later(_)) {
        return None;
    }
    let at = ip.transport?;
    let end = ip.end(data.len());
    let (transport, start, end) = match ip.protocol {
        protocol::TCP => {
            let sequence = be32(data, at + 4)?;
            let header = usize::from(byte(data, at + 12)? >> 4) * 4;
            (Transport::Tcp { sequence }, at + header.max(20), end)
        }
        protocol::UDP => {
            let len = usize::from(be16(data, at + 4)?);
            (
                Transport::Udp,
                at + 8,
                if len >= 8 { end.min(at + len) } else { end },
            )
        }
        _ => return None,
    };
    let [source, destination] = addresses(data, &ip)?;
    Some(Segment {
        source: SocketAddr::new(source, be16(data, at)?),
        destination: SocketAddr::new(destination, be16(data, at + 2)?),
        transport,
        data: data.get(start..end.min(data.len())).unwrap_or_default(),
        complete: end <= data.len() && ip.part == Part::Whole,
    })
}

fn addresses(data: &[u8], ip: &Ip) -> Option<[IpAddr; 2]> {
    let [source, destination] = ip.addresses();
    let read = |at: usize| {
        if ip.six {
            chunk::<16>(data, at).map(IpAddr::from)
        } else {
            chunk::<4>(data, at).map(IpAddr::from)
        }
    };
    Some([read(source.start)?, read(destination.start)?])
}
