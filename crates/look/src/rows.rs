//! Rows of flows and their fields.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use ringtap_flow::Process;
use ringtap_flow::schema::{self, FIELDS, Row};
use ringtap_packet::protocol::TCP;

use crate::api::{Field, Flow, FlowProcess, TopRow};
use crate::flows::ListedFlow;
use crate::label::{self, ProtocolName, has_ports};
use crate::model::UNKNOWN;
use crate::places::{Atlas, Country, HostPlace};
use crate::processes;
use crate::view::{FlowSort, Kind};

const MILLISECOND: u64 = 1_000_000;

/// Returns a flow as views show it.
pub(crate) fn flow(flow: &ListedFlow) -> Flow {
    let record = &flow.record;
    let key = &record.key;
    let port = |port: u16| has_ports(key.protocol).then_some(port);
    let application = label::application(record);
    let name = label::name(record);
    let reverse = record.reverse.unwrap_or_default();
    Flow {
        id: format!("{:x}", flow.id),
        first_ms: flow.first_ns() / MILLISECOND,
        last_ms: flow.last_ns() / MILLISECOND,
        protocol: ProtocolName(key.protocol).to_string(),
        source: key.source.to_string(),
        source_port: port(key.source_port),
        destination: key.destination.to_string(),
        destination_port: port(key.destination_port),
        application: application.map(|application| application.name.to_owned()),
        basis: application.map(|application| application.basis),
        name: name.map(|(name, _)| name.to_owned()),
        name_source: name.map(|(_, source)| source),
        packets: record.forward.packets,
        bytes: record.forward.bytes,
        reverse_packets: reverse.packets,
        reverse_bytes: reverse.bytes,
        rtt_ns: record.tcp.and_then(|tcp| tcp.server_rtt_ns),
        retransmissions: flow.retransmissions,
        flags: (key.protocol == TCP).then(|| label::flags(flow.flags())),
        vlan: key.vlan,
        ended: flow.ended.is_some(),
        end_reason: flow.ended.map(label::end_reason),
        source_process: record.source_process.as_deref().map(process),
        destination_process: record.destination_process.as_deref().map(process),
    }
}

fn process(process: &Process) -> FlowProcess {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    FlowProcess {
        key: processes::text_of(process),
        pid: process.pid,
        name: given(&process.name),
        uid: process.uid,
        container: given(&process.container),
        cgroup: given(&process.cgroup),
    }
}

/// Returns the place of a flow in an order; what is not known is the least.
pub(crate) fn rank(flow: &ListedFlow, sort: FlowSort) -> (u64, u64) {
    let rank = match sort {
        FlowSort::Bytes => flow.record.bytes(),
        FlowSort::Packets => flow.record.packets(),
        FlowSort::First => flow.first_ns(),
        FlowSort::Last => flow.last_ns(),
        FlowSort::Duration => flow.last_ns().saturating_sub(flow.first_ns()),
        FlowSort::Rtt => {
            let rtt = flow.record.tcp.and_then(|tcp| tcp.server_rtt_ns);
            rtt.map_or(0, |rtt| rtt.saturating_add(1))
        }
    };
    (rank, flow.id)
}

/// Fields of a record that a flow's row has, or that mean nothing while a flow is active.
const SHOWN: [&str; 14] = [
    "first",
    "last",
    "src",
    "dst",
    "src_port",
    "dst_port",
    "protocol",
    "packets",
    "bytes",
    "reverse_packets",
    "reverse_bytes",
    "vlan",
    "sampling",
    "end_reason",
];

/// Returns the fields that a flow's record has beside its row.
pub(crate) fn fields(flow: &ListedFlow, atlas: Option<&dyn Atlas>) -> Vec<Field> {
    let mut row = Row::new(&flow.record);
    if let Some(atlas) = atlas {
        let (key, macs) = (&flow.record.key, flow.record.macs);
        row.source = atlas.place(key.source, macs.map(|macs| macs.source));
        row.destination = atlas.place(key.destination, macs.map(|macs| macs.destination));
    }
    let known = FIELDS.iter().filter(|field| field.in_files);
    let more = known.filter(|field| !SHOWN.contains(&field.name));
    let field = |field: &schema::Field| {
        Some(Field {
            name: field.name.to_owned(),
            value: field.value(&row)?.to_string(),
        })
    };
    more.filter_map(field).collect()
}

/// Returns an address of the link layer as text.
pub(crate) fn mac(bytes: [u8; 6]) -> String {
    let mut text = String::new();
    for (number, byte) in bytes.into_iter().enumerate() {
        let separator = if number == 0 { "" } else { ":" };
        let _ = write!(text, "{separator}{byte:02x}");
    }
    text
}

/// Returns the keys of a flow in rows of a kind, each with the bytes that went out from it.
fn keys_of(
    flow: &ListedFlow,
    kind: Kind,
    place: &dyn Fn(IpAddr) -> HostPlace,
) -> Vec<(String, u64)> {
    let record = &flow.record;
    let key = &record.key;
    let forward = record.forward.bytes;
    let reverse = record.bytes() - forward;
    match kind {
        Kind::Hosts if key.source == key.destination => vec![(key.source.to_string(), forward)],
        Kind::Hosts => vec![
            (key.source.to_string(), forward),
            (key.destination.to_string(), reverse),
        ],
        Kind::Pairs => {
            let swapped = key.destination < key.source;
            let (a, b) = match swapped {
                true => (key.destination, key.source),
                false => (key.source, key.destination),
            };
            vec![(format!("{a} {b}"), if swapped { reverse } else { forward })]
        }
        Kind::Applications => {
            let application = label::application(record);
            let name = application.map_or(UNKNOWN, |application| application.name);
            vec![(name.to_owned(), forward)]
        }
        Kind::Protocols => vec![(ProtocolName(key.protocol).to_string(), forward)],
        Kind::Ports if has_ports(key.protocol) => {
            let protocol = ProtocolName(key.protocol);
            vec![(format!("{protocol}/{}", key.destination_port), forward)]
        }
        Kind::Vlans => {
            let vlan = key.vlan.map(|vlan| (vlan.to_string(), forward));
            vlan.into_iter().collect()
        }
        Kind::Ports => Vec::new(),
        Kind::AutonomousSystems => {
            let system = |host| place(host).system.map(|system| system.0.to_string());
            of_ends(
                (system(key.source), forward),
                (system(key.destination), reverse),
            )
        }
        Kind::Processes => record
            .processes(forward, reverse)
            .map(|(process, sent)| (processes::text_of(process), sent))
            .collect(),
        Kind::Countries => {
            let country = |host| place(host).country.map(Country::text);
            of_ends(
                (country(key.source), forward),
                (country(key.destination), reverse),
            )
        }
    }
}

/// Returns the keys of both ends; one that both have is there once, and has sent everything.
fn of_ends(a: (Option<String>, u64), b: (Option<String>, u64)) -> Vec<(String, u64)> {
    if a.0.is_some() && a.0 == b.0 {
        return a.0.map(|key| (key, a.1 + b.1)).into_iter().collect();
    }
    let keyed = |(key, out): (Option<String>, u64)| key.map(|key| (key, out));
    [keyed(a), keyed(b)].into_iter().flatten().collect()
}

/// Returns the sums of flows by keys of a kind, in no order.
pub(crate) fn sums<'f>(
    flows: impl Iterator<Item = &'f ListedFlow>,
    kind: Kind,
    place: &dyn Fn(IpAddr) -> HostPlace,
) -> Vec<TopRow> {
    let mut rows: HashMap<String, TopRow> = HashMap::new();
    for flow in flows {
        let (bytes, packets) = (flow.record.bytes(), flow.record.packets());
        for (key, out) in keys_of(flow, kind, place) {
            let row = rows.entry(key).or_default();
            row.bytes += bytes;
            row.packets += packets;
            row.flows += 1;
            row.bytes_out += out;
            row.bytes_in += bytes - out;
        }
    }
    let keyed = |(key, row): (String, TopRow)| TopRow { key, ..row };
    rows.into_iter().map(keyed).collect()
}
