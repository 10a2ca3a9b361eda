//! The table of fields.

use ringtap_packet::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};

use super::{Field, Get, Group, Kind, Row, VARIABLE, Value, Wire, protocol};
use crate::TunnelKind;
use crate::export::{Form, NTOP_PEN, OWN_PEN, REVERSE_PEN};
use crate::record::{EndReason, TcpCounts, Traffic};

/// The number of fields.
pub const FIELD_COUNT: usize = 102;

/// All fields. Files have them in this order.
pub static FIELDS: [Field; FIELD_COUNT] = TABLE;

#[rustfmt::skip]
const TABLE: [Field; FIELD_COUNT] = [
    time("first", "Time of the first packet", |r| Some(Value::Time(r.record.forward.first_ns)))
        .on(&[v9(Form::FirstUptime, 22, 4), ipfix(Form::FirstMillis, 152, 8), ipfix(Form::FirstNanos, 156, 8)]),
    time("last", "Time of the last packet", |r| Some(Value::Time(r.record.forward.last_ns)))
        .on(&[v9(Form::LastUptime, 21, 4), ipfix(Form::LastMillis, 153, 8), ipfix(Form::LastNanos, 157, 8)]),
    address("src", "Source address", |r| Some(Value::Address(r.record.key.source)))
        .on(&[both(Form::Source4, 8, 4), both(Form::Source6, 27, 16)]),
    address("dst", "Destination address", |r| Some(Value::Address(r.record.key.destination)))
        .on(&[both(Form::Destination4, 12, 4), both(Form::Destination6, 28, 16)]),
    number16("src_port", "Source port, of TCP, UDP, UDP-Lite, SCTP and DCCP", |r| port(r, r.record.key.source_port))
        .on(&[both(Form::SourcePort, 7, 2)]),
    number16("dst_port", "Destination port; in messages also type and code of ICMP", |r| port(r, r.record.key.destination_port))
        .on(&[both(Form::DestinationPort, 11, 2)]),
    number8("protocol", "Protocol number of IP", |r| of(r.record.key.protocol))
        .on(&[both(Form::Protocol, 4, 1)]),
    number8("icmp_type", "Type of ICMP or ICMPv6; in messages together with the code", |r| of(r.record.key.icmp()?.0))
        .on(&[both(Form::Icmp4, 32, 2), ipfix(Form::Icmp6, 139, 2)]),
    number8("icmp_code", "Code of ICMP or ICMPv6", |r| of(r.record.key.icmp()?.1)),
    number8("tos", "Type of service or traffic class", |r| of(r.record.key.tos))
        .on(&[both(Form::Tos, 5, 1)]),
    number("packets", "Packets from source to destination", |r| of(r.record.forward.packets))
        .on(&[both(Form::Packets, 2, 8)]),
    number("bytes", "Bytes of layer 3", |r| of(r.record.forward.bytes))
        .on(&[both(Form::Bytes, 1, 8)]),
    number16("tcp_flags", "TCP flags of all packets, combined by or", |r| flags(r, &r.record.forward))
        .on(&[both(Form::TcpFlags8, 6, 1), ipfix(Form::TcpFlags, 6, 2)]),
    number8("min_ttl", "Least TTL or hop limit", |r| of(r.record.forward.min_ttl))
        .on(&[both(Form::MinTtl, 52, 1)]),
    number8("max_ttl", "Greatest TTL or hop limit", |r| of(r.record.forward.max_ttl))
        .on(&[both(Form::MaxTtl, 53, 1)]),
    number16("min_length", "Least length of a packet, in bytes of layer 3", |r| of(r.record.forward.min_length))
        .on(&[both(Form::MinLength, 25, 2)]),
    number16("max_length", "Greatest length of a packet, in bytes of layer 3", |r| of(r.record.forward.max_length))
        .on(&[both(Form::MaxLength, 26, 2)]),
    time("reverse_first", "Time of the other direction's first packet", |r| Some(Value::Time(r.record.reverse?.first_ns)))
        .on(&[reverse(Form::FirstMillis, 152, 8), reverse(Form::FirstNanos, 156, 8)]),
    time("reverse_last", "Time of the other direction's last packet", |r| Some(Value::Time(r.record.reverse?.last_ns)))
        .on(&[reverse(Form::LastMillis, 153, 8), reverse(Form::LastNanos, 157, 8)]),
    number("reverse_packets", "Packets of the other direction", |r| of(r.record.reverse?.packets))
        .on(&[reverse(Form::Packets, 2, 8)]),
    number("reverse_bytes", "Bytes of the other direction", |r| of(r.record.reverse?.bytes))
        .on(&[reverse(Form::Bytes, 1, 8)]),
    number16("reverse_tcp_flags", "TCP flags of the other direction", |r| flags(r, &r.record.reverse?))
        .on(&[reverse(Form::TcpFlags8, 6, 1), reverse(Form::TcpFlags, 6, 2)]),
    number8("reverse_min_ttl", "Least TTL of the other direction", |r| of(r.record.reverse?.min_ttl))
        .on(&[reverse(Form::MinTtl, 52, 1)]),
    number8("reverse_max_ttl", "Greatest TTL of the other direction", |r| of(r.record.reverse?.max_ttl))
        .on(&[reverse(Form::MaxTtl, 53, 1)]),
    number16("reverse_min_length", "Least length of the other direction", |r| of(r.record.reverse?.min_length))
        .on(&[reverse(Form::MinLength, 25, 2)]),
    number16("reverse_max_length", "Greatest length of the other direction", |r| of(r.record.reverse?.max_length))
        .on(&[reverse(Form::MaxLength, 26, 2)]),
    text("end_reason", "Why the record ended: idle, active, end, forced, evicted", |r| word(end(r.record.end)))
        .on(&[both(Form::EndReason, 136, 1)]),
    number32("input", "Input interface", |r| of(r.record.key.input))
        .on(&[both(Form::Input, 10, 4)]),
    number16("vlan", "Outermost VLAN tag", |r| of(r.record.key.vlan?))
        .on(&[both(Form::Vlan, 58, 2)]),
    number16("inner_vlan", "Second VLAN tag", |r| of(r.record.key.inner_vlan?))
        .on(&[both(Form::InnerVlan, 245, 2)]),
    mac("src_mac", "MAC address of the sender", |r| Some(Value::Mac(r.record.macs?.source)))
        .on(&[both(Form::SourceMac, 56, 6)]),
    mac("dst_mac", "MAC address of the receiver", |r| Some(Value::Mac(r.record.macs?.destination)))
        .on(&[both(Form::DestinationMac, 80, 6)]),
    number32("mpls_label", "Topmost MPLS label", |r| of(r.record.mpls_label?))
        .on(&[both(Form::MplsTop, 70, 3)]),
    text("tunnel", "Kind of the tunnel: gre, vxlan, gtp-u, ipip", |r| word(tunnel(r.record.key.tunnel?.kind))),
    number32("tunnel_id", "Key, VNI or TEID of the tunnel", |r| of(r.record.key.tunnel?.id))
        .on(&[both(Form::SegmentId, 351, 8), both(Form::GreKey, 296, 4), both(Form::Teid, 507, 4)]),
    number32("retransmissions", "TCP segments that were sent again", |r| of(r.record.tcp?.forward.retransmissions))
        .on(&[ntop(Form::Retransmissions, 109, 4)]),
    number32("reverse_retransmissions", "The same of the other direction", |r| of(r.record.tcp?.reverse.retransmissions))
        .on(&[ntop(Form::ReverseRetransmissions, 110, 4)]),
    number("server_rtt_ns", "From SYN to SYN and ACK; in messages half of it in milliseconds", |r| of(r.record.tcp?.server_rtt_ns?))
        .on(&[ntop(Form::ServerLatency, 124, 4)]),
    number("client_rtt_ns", "From SYN and ACK to ACK; in messages half of it in milliseconds", |r| of(r.record.tcp?.client_rtt_ns?))
        .on(&[ntop(Form::ClientLatency, 123, 4)]),
    number32("sampling", "One packet in this many was metered; counters are not multiplied", |r| of(r.sampling)),
    address("exporter", "Address of the exporter of a collected record", |r| Some(Value::Address(r.origin?.exporter.ip()))),
    number16("exporter_port", "Its port", |r| of(r.origin?.exporter.port())),
    number32("domain", "Its observation domain, source id or engine id", |r| of(r.origin?.domain)),
    number8("ip_version", "Version of IP", |r| of(if r.record.key.is_ipv6() { 6_u8 } else { 4 }))
        .on(&[both(Form::IpVersion, 60, 1)]).in_messages(),
    number8("biflow_direction", "1: the record's direction is the initiator's", |r| r.record.reverse.map(|_| Value::Number(1)))
        .on(&[ipfix(Form::BiflowDirection, 239, 1)]).in_messages(),

    number32("out_of_order", "TCP segments that filled a gap, late", |r| of(r.record.tcp?.forward.out_of_order))
        .on(&[ntop_too(111, 4)]).of(Group::Tcp),
    number32("reverse_out_of_order", "The same of the other direction", |r| counted_back(r, |c| c.out_of_order))
        .on(&[ntop(Form::Plain, 112, 4)]).of(Group::Tcp),
    number32("duplicate_acks", "TCP acknowledgments that repeat the one before", |r| of(r.record.tcp?.forward.duplicate_acks))
        .on(&[own(1, 4)]).of(Group::Tcp),
    number32("reverse_duplicate_acks", "The same of the other direction", |r| counted_back(r, |c| c.duplicate_acks))
        .on(&[own(2, 4)]).of(Group::Tcp),
    number32("zero_windows", "TCP segments with a closed window", |r| of(r.record.tcp?.forward.zero_windows))
        .on(&[own(3, 4)]).of(Group::Tcp),
    number32("reverse_zero_windows", "The same of the other direction", |r| counted_back(r, |c| c.zero_windows))
        .on(&[own(4, 4)]).of(Group::Tcp),
    number32("resets", "TCP resets from the source", |r| of(r.record.tcp?.forward.resets))
        .on(&[both(Form::Plain, 220, 8)]).of(Group::Tcp),
    number32("reverse_resets", "TCP resets from the destination", |r| counted_back(r, |c| c.resets))
        .on(&[reverse(Form::Plain, 220, 8)]).of(Group::Tcp),
    number("response_ns", "From the initiator's first data to the first data that answers it, of TCP and UDP; in messages in milliseconds", |r| of(r.record.response_ns?))
        .on(&[Wire { form: Form::Millis, ..ntop_too(125, 4) }]).of(Group::Tcp),

    text("app", "Protocol of the application layer", |r| word(protocol(r.record)?.0.name()))
        .on(&[both(Form::Plain, 96, VARIABLE)]).of(Group::Names),
    text("app_basis", "How it was found: content, or port if the payloads are not conclusive", |r| word(protocol(r.record)?.1.name()))
        .on(&[own(10, VARIABLE)]).of(Group::Names),
    text("name", "Name of the server or host", |r| shown(r.application()?.name?))
        .on(&[ntop_too(122, VARIABLE)]).of(Group::Names),
    text("name_source", "Where the name comes from: sni, dns, http, quic, dhcp, mdns, nbns, llmnr", |r| word(r.application()?.name_source?.name()))
        .on(&[own(11, VARIABLE)]).of(Group::Names),

    text("dns_query", "Name in the first question", |r| shown(r.application()?.dns_name?))
        .on(&[ntop_too(205, VARIABLE)]).of(Group::Dns),
    number16("dns_type", "Type of the first question", |r| of(r.application()?.dns_type?))
        .on(&[ntop_too(207, 2)]).of(Group::Dns),
    number8("dns_rcode", "Response code of the first answer", |r| of(r.application()?.dns_rcode?))
        .on(&[ntop_too(208, 1)]).of(Group::Dns),
    number16("dns_answers", "Records in the first answer; in messages 255 at most", |r| of(r.application()?.dns_answers?))
        .on(&[ntop_too(209, 1)]).of(Group::Dns),
    number("dns_latency_ns", "From the first question to its answer", |r| of(r.application()?.dns_latency_ns?))
        .on(&[own(20, 8)]).of(Group::Dns),

    text("tls_sni", "Server name in the ClientHello, of TLS and QUIC", |r| shown(r.application()?.tls_sni?))
        .on(&[ntop_too(188, VARIABLE)]).of(Group::Tls),
    text("tls_alpn", "Application protocol: the server's choice if it is readable, else the client's first offer", |r| shown(r.application()?.tls_alpn?))
        .on(&[own(30, VARIABLE)]).of(Group::Tls),
    code16("tls_version", "Version: the server's choice, else the highest that the client offers; 0x0304 is TLS 1.3", |r| coded(r.application()?.tls_version?))
        .on(&[own(31, 2)]).of(Group::Tls),
    code16("tls_cipher", "Cipher suite that the server chose", |r| coded(r.application()?.tls_cipher?))
        .on(&[own(32, 2)]).of(Group::Tls),
    text("tls_ja4", "JA4 fingerprint of the client", |r| Some(Value::Text(r.application()?.tls_ja4.as_ref()?.as_str())))
        .on(&[own(33, VARIABLE)]).of(Group::Tls),
    code("quic_version", "Version of QUIC", |r| coded(r.application()?.quic_version?))
        .on(&[own(40, 4)]).of(Group::Quic),

    text("http_host", "Host of the first request", |r| shown(r.application()?.http_host?))
        .on(&[both(Form::Plain, 460, VARIABLE)]).of(Group::Http),
    text("http_method", "Method of the first request", |r| shown(r.application()?.http_method?))
        .on(&[both(Form::Plain, 459, VARIABLE)]).of(Group::Http),
    text("http_path", "Target of the first request", |r| shown(r.application()?.http_path?))
        .on(&[both(Form::Plain, 461, VARIABLE)]).of(Group::Http),
    number16("http_status", "Status of the first response", |r| of(r.application()?.http_status?))
        .on(&[both(Form::Plain, 457, 2)]).of(Group::Http),
    text("http_user_agent", "User agent of the first request", |r| shown(r.application()?.http_user_agent?))
        .on(&[both(Form::Plain, 468, VARIABLE)]).of(Group::Http),

    text("client_banner", "The client's first line, of SSH", |r| shown(r.application()?.client_banner?))
        .on(&[own(50, VARIABLE)]).of(Group::Services),
    text("server_banner", "The server's first line or version, of SSH, SMTP, FTP, POP3, IMAP, MySQL", |r| shown(r.application()?.server_banner?))
        .on(&[own(51, VARIABLE)]).of(Group::Services),
    text("dhcp_host", "Host name that the DHCP client reports", |r| shown(r.application()?.dhcp_host?))
        .on(&[ntop_too(355, VARIABLE)]).of(Group::Services),
    text("dhcp_vendor", "Vendor class that the DHCP client reports", |r| shown(r.application()?.dhcp_vendor?))
        .on(&[own(52, VARIABLE)]).of(Group::Services),
    number8("ntp_stratum", "Stratum of the time server", |r| of(r.application()?.ntp_stratum?))
        .on(&[own(53, 1)]).of(Group::Services),
    number16("stun_method", "Method of the first STUN message; 1 is Binding", |r| of(r.application()?.stun_method?))
        .on(&[own(54, 2)]).of(Group::Services),
    number8("rtp_payload_type", "Payload type of the first RTP packet", |r| of(r.application()?.rtp_payload_type?))
        .on(&[own(55, 1)]).of(Group::Services),
    code("rtp_ssrc", "Synchronisation source of the first RTP packet", |r| coded(r.application()?.rtp_ssrc?))
        .on(&[own(56, 4)]).of(Group::Services),
    text("mqtt_client_id", "Client identifier of an MQTT connection", |r| shown(r.application()?.mqtt_client_id?))
        .on(&[own(57, VARIABLE)]).of(Group::Services),
    text("rdp_cookie", "User in the cookie of an RDP connection request", |r| shown(r.application()?.rdp_cookie?))
        .on(&[own(58, VARIABLE)]).of(Group::Services),

    number32("src_as", "Autonomous system of the source, with --mmdb", |r| of(r.source.as_number?))
        .on(&[both(Form::Plain, 16, 4)]).of(Group::As),
    number32("dst_as", "The same of the destination", |r| of(r.destination.as_number?))
        .on(&[both(Form::Plain, 17, 4)]).of(Group::As),
    text("src_as_name", "Organisation of the source's autonomous system", |r| r.source.as_name.map(Value::Text))
        .on(&[ntop_too(443, VARIABLE)]).of(Group::As),
    text("dst_as_name", "The same of the destination", |r| r.destination.as_name.map(Value::Text))
        .on(&[ntop_too(444, VARIABLE)]).of(Group::As),
    text("src_country", "Country of the source, two letters", |r| r.source.country.map(Value::Text))
        .on(&[ntop_too(101, VARIABLE)]).of(Group::As),
    text("dst_country", "The same of the destination", |r| r.destination.country.map(Value::Text))
        .on(&[ntop_too(103, VARIABLE)]).of(Group::As),
    text("src_vendor", "Vendor of the sender's network card, with --oui", |r| r.source.vendor.map(Value::Text))
        .on(&[own(60, VARIABLE)]).of(Group::Mac),
    text("dst_vendor", "The same of the receiver", |r| r.destination.vendor.map(Value::Text))
        .on(&[own(61, VARIABLE)]).of(Group::Mac),

    number32("src_pid", "Number of the process at the source, with --who", |r| of(r.record.source_process.as_ref()?.pid))
        .on(&[own(70, 4)]).of(Group::Process),
    number32("dst_pid", "The same of the destination", |r| of(r.record.destination_process.as_ref()?.pid))
        .on(&[own(71, 4)]).of(Group::Process),
    text("src_process", "Name of the process at the source", |r| given(&r.record.source_process.as_ref()?.name))
        .on(&[own(72, VARIABLE)]).of(Group::Process),
    text("dst_process", "The same of the destination", |r| given(&r.record.destination_process.as_ref()?.name))
        .on(&[own(73, VARIABLE)]).of(Group::Process),
    number32("src_uid", "Effective user of the process at the source; in messages 4294967295 if it is unknown", |r| of(r.record.source_process.as_ref()?.uid?))
        .on(&[user(74)]).of(Group::Process),
    number32("dst_uid", "The same of the destination", |r| of(r.record.destination_process.as_ref()?.uid?))
        .on(&[user(75)]).of(Group::Process),
    text("src_container", "Container of the process at the source: its name, or its id if the name is unknown", |r| given(&r.record.source_process.as_ref()?.container))
        .on(&[own(76, VARIABLE)]).of(Group::Process),
    text("dst_container", "The same of the destination", |r| given(&r.record.destination_process.as_ref()?.container))
        .on(&[own(77, VARIABLE)]).of(Group::Process),
    text("src_cgroup", "Control group of the process at the source", |r| given(&r.record.source_process.as_ref()?.cgroup))
        .on(&[own(78, VARIABLE)]).of(Group::Process),
    text("dst_cgroup", "The same of the destination", |r| given(&r.record.destination_process.as_ref()?.cgroup))
        .on(&[own(79, VARIABLE)]).of(Group::Process),
];

/// Makes the constructors of fields, each for a kind of values and the bits that its numbers need.
macro_rules! constructors {
    ($($constructor:ident($kind:ident, $bits:literal),)*) => {$(
        const fn $constructor(name: &'static str, doc: &'static str, get: Get) -> Field {
            Field {
                name,
                group: Group::Basic,
                kind: Kind::$kind,
                doc,
                elements: &[],
                in_files: true,
                bits: $bits,
                get,
            }
        }
    )*};
}

constructors! {
    number8(Number, 8),
    number16(Number, 16),
    number32(Number, 32),
    number(Number, 64),
    code16(Code, 16),
    code(Code, 32),
    time(Time, 64),
    address(Address, 64),
    mac(Mac, 64),
    text(Text, 64),
}

impl Field {
    /// The field with the elements that carry it.
    const fn on(self, elements: &'static [Wire]) -> Self {
        Self { elements, ..self }
    }

    /// The field in another group.
    const fn of(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// The field, which files do not have.
    const fn in_messages(self) -> Self {
        Self {
            in_files: false,
            ..self
        }
    }
}

/// An element of IANA's registry, in v9 and IPFIX.
const fn both(form: Form, id: u16, length: u16) -> Wire {
    Wire {
        form,
        id,
        enterprise: 0,
        length,
        v9: true,
        ipfix: true,
    }
}

const fn v9(form: Form, id: u16, length: u16) -> Wire {
    Wire {
        ipfix: false,
        ..both(form, id, length)
    }
}

const fn ipfix(form: Form, id: u16, length: u16) -> Wire {
    Wire {
        v9: false,
        ..both(form, id, length)
    }
}

/// An element of IANA's registry for the other direction (RFC 5103).
const fn reverse(form: Form, id: u16, length: u16) -> Wire {
    Wire {
        enterprise: REVERSE_PEN,
        ..ipfix(form, id, length)
    }
}

/// An element of ntop, in IPFIX.
const fn ntop(form: Form, id: u16, length: u16) -> Wire {
    Wire {
        enterprise: NTOP_PEN,
        ..ipfix(form, id, length)
    }
}

/// An element of ntop, in IPFIX and, as ntop does, in v9.
const fn ntop_too(id: u16, length: u16) -> Wire {
    Wire {
        v9: true,
        ..ntop(Form::Plain, id, length)
    }
}

/// An element of ringtap's own.
const fn own(id: u16, length: u16) -> Wire {
    Wire {
        enterprise: OWN_PEN,
        ..ipfix(Form::Plain, id, length)
    }
}

/// The same for a user, of whom 0 is one.
const fn user(id: u16) -> Wire {
    Wire {
        form: Form::User,
        ..own(id, 4)
    }
}

fn of<'r>(number: impl Into<u64>) -> Option<Value<'r>> {
    Some(Value::Number(number.into()))
}

fn coded<'r>(code: impl Into<u32>) -> Option<Value<'r>> {
    Some(Value::Code(code.into()))
}

fn word<'r>(word: &'static str) -> Option<Value<'r>> {
    Some(Value::Text(word))
}

fn shown(text: ringtap_inspect::Text<'_>) -> Option<Value<'_>> {
    Some(Value::Text(text.as_str()))
}

fn given(text: &str) -> Option<Value<'_>> {
    (!text.is_empty()).then_some(Value::Text(text))
}

/// A count of the other direction, if it had packets.
fn counted_back<'r>(row: &Row<'r>, count: fn(&TcpCounts) -> u32) -> Option<Value<'r>> {
    row.record.reverse?;
    of(count(&row.record.tcp.as_ref()?.reverse))
}

/// Ports, of the protocols that have some.
fn port<'r>(row: &Row<'r>, port: u16) -> Option<Value<'r>> {
    let has_ports = matches!(row.record.key.protocol, TCP | UDP | DCCP | SCTP | UDP_LITE);
    has_ports.then(|| Value::Number(port.into()))
}

fn flags<'r>(row: &Row<'r>, traffic: &Traffic) -> Option<Value<'r>> {
    (row.record.key.protocol == TCP).then(|| Value::Number(traffic.tcp_flags.into()))
}

fn end(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Idle => "idle",
        EndReason::Active => "active",
        EndReason::EndOfFlow => "end",
        EndReason::Forced => "forced",
        EndReason::NoResources => "evicted",
    }
}

fn tunnel(kind: TunnelKind) -> &'static str {
    match kind {
        TunnelKind::Gre => "gre",
        TunnelKind::Vxlan => "vxlan",
        TunnelKind::GtpU => "gtp-u",
        TunnelKind::IpInIp => "ipip",
    }
}
