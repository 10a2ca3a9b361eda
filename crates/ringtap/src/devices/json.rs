//! Prints the devices as one JSON array. Its keys are a contract: keys may be added, not changed.
//!
//! Null means unknown or not applicable. A name that is not UTF-8 appears with its invalid bytes as `\xNN`;
//! `name_hex` then holds the bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::IpAddr;

use ringtap_capture::LinkType;
use ringtap_capture::devices::{
    ActiveOffload, Address, Channels, DefaultRoute, DeviceInfo, Driver, EngineSupport, Feature,
    Name, Relation, Rings, Statistic, Timestamping, Vlan, XdpMode, XdpProgram,
};

use crate::object::object;

/// Prints the array, indented.
pub(super) fn print(devices: &[DeviceInfo], out: &mut impl Write) -> io::Result<()> {
    let devices: Vec<_> = devices.iter().map(Device::new).collect();
    serde_json::to_writer_pretty(&mut *out, &devices)?;
    writeln!(out)
}

object! {
    struct Device(device: &DeviceInfo) {
        name: String = text(&device.name),
        #[serde(skip_serializing_if = "Option::is_none")]
        name_hex: Option<String> = name_hex(&device.name),
        index: u32 = device.index,
        altnames: Vec<String> = device.altnames.iter().map(text).collect(),
        alias: Option<String> = device.alias.as_ref().map(text),
        kind: Option<String> = device.kind.as_ref().map(text),
        link_type: JsonLinkType = JsonLinkType::new(device.link_type),
        hardware_type: u16 = device.hardware_type,
        flags: Vec<&'static str> = device.flags.names().collect(),
        flags_value: u32 = device.flags.0,
        state: &'static str = device.state.name(),
        carrier: Option<bool> = device.carrier,
        mac: Option<String> = mac(&device.mac),
        permanent_mac: Option<String> = device.permanent_mac.as_deref().and_then(mac),
        mac_broadcast: Option<String> = mac(&device.mac_broadcast),
        addresses: Vec<JsonAddress> = device.addresses.iter().map(JsonAddress::new).collect(),
        default_routes: Vec<Route> = device.default_routes.iter().map(Route::new).collect(),
        mtu: u32 = device.mtu,
        parent: Option<Related> = device.parent.as_ref().map(Related::new),
        master: Option<Related> = device.master.as_ref().map(Related::new),
        vlan: Option<JsonVlan> = device.vlan.map(JsonVlan::new),
        promiscuity: u32 = device.promiscuity,
        rx_queues: Option<u32> = device.rx_queues,
        tx_queues: Option<u32> = device.tx_queues,
        channels: Option<JsonChannels> = device.channels.map(JsonChannels::new),
        rings: Option<JsonRings> = device.rings.map(JsonRings::new),
        scheduler: Option<String> = device.scheduler.as_ref().map(text),
        gso_max_size: Option<u32> = device.gso_max_size,
        gro_max_size: Option<u32> = device.gro_max_size,
        speed_mbps: Option<u32> = device.link_mode.and_then(|mode| mode.speed),
        full_duplex: Option<bool> = device.link_mode.and_then(|mode| mode.full_duplex),
        driver: Option<JsonDriver> = device.driver.as_ref().map(JsonDriver::new),
        features: Vec<JsonFeature> = device.features.iter().map(JsonFeature::new).collect(),
        offloads: Vec<JsonOffload> = device.active_offloads().iter().map(JsonOffload::new).collect(),
        timestamping: Option<JsonTimestamping> = device.timestamping.map(JsonTimestamping::new),
        xdp: Vec<Xdp> = device.xdp.iter().copied().map(Xdp::new).collect(),
        counters: Option<BTreeMap<&'static str, u64>> = device.counters.map(|counters| counters.iter().collect()),
        statistics: Vec<JsonStatistic> = device.statistics.iter().map(JsonStatistic::new).collect(),
        engines: Vec<Engine> = device.engines().iter().map(Engine::new).collect(),
        steal_hazards: Vec<String> = device.steal_hazards.iter().map(ToString::to_string).collect(),
        unread: Vec<String> = device.unread.iter().map(ToString::to_string).collect(),
    }
}

object! {
    struct JsonLinkType(link_type: LinkType) {
        value: u16 = link_type.0,
        name: Option<&'static str> = link_type.name(),
        description: Option<&'static str> = link_type.description(),
    }
}

object! {
    struct JsonAddress(address: &Address) {
        family: &'static str = family(address.address.is_ipv6()),
        address: IpAddr = address.address,
        prefix_length: u8 = address.prefix,
        netmask: IpAddr = address.netmask(),
        broadcast: Option<IpAddr> = address.broadcast,
        peer: Option<IpAddr> = address.peer,
        scope: u8 = address.scope,
        flags_value: u32 = address.flags,
    }
}

object! {
    struct Route(route: &DefaultRoute) {
        family: &'static str = family(route.is_ipv6),
        gateway: Option<IpAddr> = route.gateway,
        metric: u32 = route.metric,
        table: u32 = route.table,
    }
}

object! {
    struct Related(relation: &Relation) {
        index: u32 = relation.index,
        name: Option<String> = relation.name.as_ref().map(text),
        namespace: Option<i32> = relation.namespace,
    }
}

object! {
    struct JsonVlan(vlan: Vlan) {
        id: u16 = vlan.id,
        protocol: String = super::text::tag_protocol(vlan.protocol),
    }
}

object! {
    struct JsonChannels(channels: Channels) {
        rx: u32 = channels.rx,
        tx: u32 = channels.tx,
        other: u32 = channels.other,
        combined: u32 = channels.combined,
        max_rx: u32 = channels.max_rx,
        max_tx: u32 = channels.max_tx,
        max_other: u32 = channels.max_other,
        max_combined: u32 = channels.max_combined,
    }
}

object! {
    struct JsonRings(rings: Rings) {
        rx: u32 = rings.rx,
        tx: u32 = rings.tx,
        max_rx: u32 = rings.max_rx,
        max_tx: u32 = rings.max_tx,
    }
}

object! {
    struct JsonDriver(driver: &Driver) {
        name: String = text(&driver.name),
        version: String = text(&driver.version),
        firmware: String = text(&driver.firmware),
        bus: String = text(&driver.bus),
    }
}

object! {
    struct JsonFeature(feature: &Feature) {
        name: String = text(&feature.name),
        active: bool = feature.active,
        requested: bool = feature.requested,
        changeable: bool = feature.changeable,
    }
}

object! {
    struct JsonOffload(offload: &ActiveOffload) {
        effect: &'static str = offload.effect.clause(),
        undone: bool = offload.effect.is_undone(),
        features: Vec<String> = offload.features.iter().map(text).collect(),
    }
}

object! {
    struct JsonTimestamping(timestamping: Timestamping) {
        hardware_receive: bool = timestamping.can_stamp_received(),
        hardware_receive_all: bool = timestamping.can_stamp_all(),
        clock: Option<u32> = timestamping.clock,
        capabilities_value: u32 = timestamping.capabilities,
        tx_types_value: u32 = timestamping.tx_types,
        rx_filters_value: u32 = timestamping.rx_filters,
    }
}

object! {
    struct Xdp(program: XdpProgram) {
        mode: &'static str = xdp_mode(program.mode),
        id: u32 = program.id,
    }
}

object! {
    struct JsonStatistic(statistic: &Statistic) {
        name: String = text(&statistic.name),
        value: u64 = statistic.value,
    }
}

object! {
    struct Engine(support: &EngineSupport) {
        engine: &'static str = support.engine,
        summary: &'static str = support.summary,
        usable: bool = support.obstacle.is_none(),
        reason: Option<String> = support.obstacle.as_ref().map(ToString::to_string),
    }
}

pub(super) fn xdp_mode(mode: XdpMode) -> &'static str {
    match mode {
        XdpMode::Native => "native",
        XdpMode::Generic => "generic",
        XdpMode::Offloaded => "offloaded",
    }
}

fn family(is_ipv6: bool) -> &'static str {
    if is_ipv6 { "inet6" } else { "inet" }
}

/// Returns the name unchanged, apart from JSON's own escapes. In a name that is not UTF-8 the invalid bytes
/// are escaped.
fn text(name: &Name) -> String {
    name.as_str()
        .map_or_else(|| name.to_string(), str::to_owned)
}

/// Returns the bytes of a name that is not UTF-8.
fn name_hex(name: &Name) -> Option<String> {
    let is_text = name.as_str().is_some();
    (!is_text).then(|| hex(name.as_bytes(), ""))
}

fn mac(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| hex(bytes, ":"))
}

/// Returns bytes as pairs of hexadecimal digits.
pub(super) fn hex(bytes: &[u8], separator: &str) -> String {
    let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(separator)
}
