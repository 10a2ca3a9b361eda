//! The values that views show, as the JSON of `/api/v1` has them.
//!
//! Times are milliseconds since 1970 (`_ms`), durations nanoseconds (`_ns`); bytes are of layer 3. An
//! unknown value is null. Texts from packets have their control characters escaped.

use serde::Serialize;

/// The present state: the value that `top`, `web` and `/metrics` read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// The program's version.
    pub version: &'static str,
    /// The device with its engine, or the file.
    pub source: String,
    /// The name of this host.
    pub hostname: String,
    /// When the run began, by its clock.
    pub started_ms: u64,
    /// The time of the newest packet, or live the time of the day.
    pub now_ms: u64,
    /// Whether updates are held back.
    pub paused: bool,
    /// Sums since the start.
    pub totals: Totals,
    /// Rates over the last second or so.
    pub rates: Rates,
    /// The health of TCP connections.
    pub tcp: TcpHealth,
    /// DNS, where the meter looks at it.
    pub dns: Dns,
    /// Lost packets by layer.
    pub losses: Vec<Loss>,
    /// Alerts, the newest first.
    pub alerts: Vec<Alert>,
    /// Whether the source is a file or several.
    pub file: bool,
    /// Where packets can be downloaded from.
    pub packets_from: Vec<PacketsFrom>,
    /// Whether there is traffic from before this run.
    pub has_history: bool,
    /// Whether flows have names.
    pub has_names: bool,
    /// Whether flows have processes.
    pub has_processes: bool,
}

/// A place that packets can be downloaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PacketsFrom {
    /// The capture: packets from the request on.
    Live,
    /// The files that were read, as a whole.
    Files,
    /// The folder of a recorder: packets of a time.
    Recorder,
}

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Packets that were metered, those without IP too.
    pub packets: u64,
    /// Bytes of layer 3 of packets of IP.
    pub bytes: u64,
    /// Flows that began.
    pub flows: u64,
    /// Flows that are under way.
    pub active_flows: u64,
    /// Hosts that are listed.
    pub hosts: u64,
    /// Packets without IP.
    pub not_ip: u64,
    /// Packets with a wrong header of IP.
    pub malformed: u64,
}

/// Rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Packets per second.
    pub packets_per_s: f64,
    /// Bits of layer 3 per second.
    pub bits_per_s: f64,
    /// Flows that began per second.
    pub new_flows_per_s: f64,
}

/// The health of TCP connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TcpHealth {
    /// Packets whose data had been seen before.
    pub retransmissions: u64,
    /// Packets out of order.
    pub out_of_order: Option<u64>,
    /// Packets with a window of zero.
    pub zero_windows: Option<u64>,
    /// Connections with RST.
    pub resets: u64,
    /// The mean time from the probe to the client and back, of the last minute's handshakes.
    pub client_rtt_ns: Option<u64>,
    /// The mean time from the probe to the server and back, of the last minute's handshakes.
    pub server_rtt_ns: Option<u64>,
}

/// DNS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dns {
    /// Flows with a question.
    pub queries: Option<u64>,
    /// Those with an answer that is an error.
    pub failures: Option<u64>,
}

/// Lost packets of a layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Loss {
    /// `interface`, `hook`, `before_hook`, `ring`, `sampling`, `view`.
    pub layer: &'static str,
    /// Packets, or updates of views for `view`; null: not known.
    pub packets: Option<u64>,
}

/// An alert.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// The alert's number, from 1.
    pub seq: u64,
    /// When it was raised.
    pub time_ms: u64,
    /// `new-host`, `scan`, `rate`, `loss`.
    pub kind: &'static str,
    /// The host, or empty.
    pub subject: String,
    /// One sentence.
    pub text: String,
}

/// Alerts, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alerts {
    /// The list.
    pub alerts: Vec<Alert>,
}

/// Traffic over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Series {
    /// The length of a step.
    pub step_ms: u64,
    /// When the first step begins.
    pub from_ms: u64,
    /// When the last step ends.
    pub to_ms: u64,
    /// A line for each class, that with most bytes first.
    pub series: Vec<Line>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The class.
    pub name: String,
    /// Bytes of each step; null before the first packet and after the last.
    pub bytes: Vec<Option<u64>>,
    /// Packets of each step.
    pub packets: Vec<Option<u64>>,
}

/// Rows with most traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Top {
    /// The kind of the rows.
    pub of: String,
    /// When the window begins.
    pub from_ms: u64,
    /// The rows, the greatest first.
    pub rows: Vec<TopRow>,
    /// All that has no row here.
    pub others: Others,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TopRow {
    /// An address, two of them, a name or a number; of a process its number, with @ and its start.
    pub key: String,
    /// Its name.
    pub name: Option<String>,
    /// Where the name comes from.
    pub name_source: Option<&'static str>,
    /// Bytes of both directions.
    pub bytes: u64,
    /// Packets of both directions.
    pub packets: u64,
    /// Flows that began.
    pub flows: u64,
    /// Bytes that the host received; of others those of the reverse direction.
    pub bytes_in: u64,
    /// Bytes that the host sent; of others those of the forward direction.
    pub bytes_out: u64,
    /// The true number of bytes is at most so many more.
    pub error: u64,
}

/// All that has no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Others {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Flows.
    pub flows: u64,
}

/// Hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hosts {
    /// Hosts that are listed, and of those that match.
    pub total: u64,
    /// The rows.
    pub rows: Vec<HostRow>,
}

/// A host in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostRow {
    /// Traffic since the host is listed.
    #[serde(flatten)]
    pub row: TopRow,
    /// First and last packet.
    pub first_ms: u64,
    /// The last packet.
    pub last_ms: u64,
    /// The mean time of handshakes, from the probe to the host and back.
    pub rtt_ns: Option<u64>,
    /// Retransmissions of its connections.
    pub retransmissions: u64,
    /// Alerts about it.
    pub alerts: u64,
}

/// A host, in detail.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Host {
    /// The address.
    pub address: String,
    /// Its name.
    pub name: Option<String>,
    /// Where that comes from.
    pub name_source: Option<&'static str>,
    /// The address of the link layer.
    pub mac: Option<String>,
    /// The adapter's manufacturer.
    pub vendor: Option<String>,
    /// The autonomous system.
    #[serde(rename = "as")]
    pub autonomous_system: Option<String>,
    /// The country.
    pub country: Option<String>,
    /// The first packet.
    pub first_ms: u64,
    /// The last packet.
    pub last_ms: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Packets received.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Flows that began.
    pub flows: u64,
    /// Listed flows that are under way.
    pub active_flows: u64,
    /// The hosts that it speaks with.
    pub peers: Vec<TopRow>,
    /// Applications of its listed flows.
    pub applications: Vec<TopRow>,
    /// All its names.
    pub names: Vec<String>,
    /// TCP.
    pub tcp: TcpHealth,
    /// DNS questions of the host.
    pub dns: Dns,
    /// Its newest flows.
    pub recent_flows: Vec<Flow>,
    /// Bytes that it sent and received over time; packets are not known.
    pub series: Option<Series>,
}

/// Flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Flows {
    /// Listed flows that match.
    pub total: u64,
    /// The number of the first row.
    pub offset: u64,
    /// Flows that are not listed, because the table was full.
    pub unlisted: u64,
    /// The rows.
    pub flows: Vec<Flow>,
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Flow {
    /// Its name in this interface.
    pub id: String,
    /// The first packet.
    pub first_ms: u64,
    /// The last packet.
    pub last_ms: u64,
    /// The protocol above IP, by name or number.
    pub protocol: String,
    /// The initiator's address.
    pub source: String,
    /// The initiator's port; null where the protocol has none.
    pub source_port: Option<u16>,
    /// The responder's address.
    pub destination: String,
    /// The responder's port.
    pub destination_port: Option<u16>,
    /// The application.
    pub application: Option<String>,
    /// How that was found: `content` or `port`.
    pub basis: Option<&'static str>,
    /// The name of what was asked for.
    pub name: Option<String>,
    /// Where the name comes from.
    pub name_source: Option<&'static str>,
    /// The initiator's packets.
    pub packets: u64,
    /// The initiator's bytes.
    pub bytes: u64,
    /// The responder's packets.
    pub reverse_packets: u64,
    /// The responder's bytes.
    pub reverse_bytes: u64,
    /// The time from the probe to the server and back.
    pub rtt_ns: Option<u64>,
    /// Retransmissions of both directions.
    pub retransmissions: u64,
    /// TCP flags of both directions, as letters.
    pub flags: Option<String>,
    /// The VLAN.
    pub vlan: Option<u16>,
    /// Whether it has ended.
    pub ended: bool,
    /// Why.
    pub end_reason: Option<&'static str>,
    /// The process at the initiator's end, if it is on this host and known.
    pub source_process: Option<FlowProcess>,
    /// The process at the responder's end.
    pub destination_process: Option<FlowProcess>,
}

/// The process at an end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowProcess {
    /// The key of its row among processes.
    pub key: String,
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: Option<String>,
    /// The effective user.
    pub uid: Option<u32>,
    /// The id or name of its container.
    pub container: Option<String>,
    /// The path of its control group.
    pub cgroup: Option<String>,
}

/// A flow, in detail.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowDetail {
    /// The flow.
    pub flow: Flow,
    /// The other fields of its record.
    pub fields: Vec<Field>,
    /// The first bytes of its packets.
    pub first_bytes: Option<Vec<FirstBytes>>,
}

/// A field of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value as text.
    pub value: String,
}

/// The first bytes of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FirstBytes {
    /// When it was captured.
    pub time_ms: u64,
    /// `forward` or `reverse`.
    pub direction: &'static str,
    /// Its length.
    pub length: u32,
    /// Bytes from the header of IP on.
    pub hex: String,
    /// Whether the packet has more.
    pub truncated: bool,
}

/// Bytes between hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Matrix {
    /// Addresses.
    pub hosts: Vec<String>,
    /// Their names.
    pub names: Vec<Option<String>>,
    /// Bytes from the host of the row to that of the column.
    pub bytes: Vec<Vec<u64>>,
}

/// Losses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Losses {
    /// Each layer.
    pub layers: Vec<LossLayer>,
    /// Lost packets over the last 5 minutes.
    pub series: LossSeries,
}

/// Losses of a layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LossLayer {
    /// As [`Loss::layer`].
    pub layer: &'static str,
    /// As [`Loss::packets`].
    pub packets: Option<u64>,
    /// The present rate.
    pub per_s: f64,
    /// Explains which packets are lost there.
    pub explanation: &'static str,
    /// Advice against these losses.
    pub advice: &'static str,
}

/// Lost packets over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LossSeries {
    /// The length of a step.
    pub step_ms: u64,
    /// When the first step begins.
    pub from_ms: u64,
    /// Lost packets of each step.
    pub dropped: Vec<u64>,
}

/// The cost of the capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// The share of one processor that the process takes.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
    /// Processor time by packet.
    pub ns_per_packet: Option<f64>,
    /// Time of the capture's programs in the kernel by packet, if it is measured. It is not part of the process's.
    pub kernel_ns_per_packet: Option<f64>,
    /// Threads with their time by packet.
    pub components: Vec<Component>,
}

/// A part of the cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Component {
    /// The thread's name.
    pub name: String,
    /// Nanoseconds by packet.
    pub ns: f64,
}
