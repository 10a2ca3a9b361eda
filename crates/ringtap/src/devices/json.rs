//! Prints the devices as one JSON array. Its keys are a contract: keys may be added, not changed.
//!
//! Null means unknown or not applicable. A name that is not UTF-8 appears with its invalid bytes as `\xNN`;
//! `name_hex` then holds the bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::IpAddr;

use ringtap_capture::devices::{
    Address, Channels, DefaultRoute, DeviceInfo, Driver, Feature, LinkMode, Name, Relation, Rings,
    Timestamping, Vlan, XdpMode, XdpProgram,
};
use serde::Serialize;

/// Prints the array, indented.
pub(super) fn print(devices: &[DeviceInfo], out: &mut impl Write) -> io::Result<()> {
    let devices: Vec<_> = devices.iter().map(Device::new).collect();
    serde_json::to_writer_pretty(&mut *out, &devices)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Device {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    index: u32,
    altnames: Vec<String>,
    alias: Option<String>,
    kind: Option<String>,
    link_type: LinkType,
    hardware_type: u16,
    flags: Vec<&'static str>,
    flags_value: u32,
    state: &'static str,
    carrier: Option<bool>,
    mac: Option<String>,
    permanent_mac: Option<String>,
    mac_broadcast: Option<String>,
    addresses: Vec<JsonAddress>,
    default_routes: Vec<Route>,
    mtu: u32,
    parent: Option<Related>,
    master: Option<Related>,
    vlan: Option<JsonVlan>,
    promiscuity: u32,
    rx_queues: Option<u32>,
    tx_queues: Option<u32>,
    channels: Option<JsonChannels>,
    rings: Option<JsonRings>,
    scheduler: Option<String>,
    gso_max_size: Option<u32>,
    gro_max_size: Option<u32>,
    speed_mbps: Option<u32>,
    full_duplex: Option<bool>,
    driver: Option<JsonDriver>,
    features: Vec<JsonFeature>,
    offloads: Vec<Offload>,
    timestamping: Option<JsonTimestamping>,
    xdp: Vec<Xdp>,
    counters: Option<BTreeMap<&'static str, u64>>,
    statistics: Vec<JsonStatistic>,
    engines: Vec<Engine>,
    steal_hazards: Vec<String>,
    unread: Vec<String>,
}

impl Device {
    fn new(device: &DeviceInfo) -> Self {
        let mode = device.link_mode.unwrap_or(LinkMode {
            speed: None,
            full_duplex: None,
        });
        let name_hex = device
            .name
            .as_str()
            .is_none()
            .then(|| hex(device.name.as_bytes(), ""));
        Self {
            name: text(&device.name),
            name_hex,
            index: device.index,
            altnames: device.altnames.iter().map(text).collect(),
            alias: device.alias.as_ref().map(text),
            kind: device.kind.as_ref().map(text),
            link_type: LinkType::new(device),
            hardware_type: device.hardware_type,
            flags: device.flags.names().collect(),
            flags_value: device.flags.0,
            state: device.state.name(),
            carrier: device.carrier,
            mac: mac(&device.mac),
            permanent_mac: device.permanent_mac.as_deref().and_then(mac),
            mac_broadcast: mac(&device.mac_broadcast),
            addresses: device.addresses.iter().map(JsonAddress::new).collect(),
            default_routes: device.default_routes.iter().map(Route::new).collect(),
            mtu: device.mtu,
            parent: device.parent.as_ref().map(Related::new),
            master: device.master.as_ref().map(Related::new),
            vlan: device.vlan.map(JsonVlan::new),
            promiscuity: device.promiscuity,
            rx_queues: device.rx_queues,
            tx_queues: device.tx_queues,
            channels: device.channels.map(JsonChannels::new),
            rings: device.rings.map(JsonRings::new),
            scheduler: device.scheduler.as_ref().map(text),
            gso_max_size: device.gso_max_size,
            gro_max_size: device.gro_max_size,
            speed_mbps: mode.speed,
            full_duplex: mode.full_duplex,
            driver: device.driver.as_ref().map(JsonDriver::new),
            features: device.features.iter().map(JsonFeature::new).collect(),
            offloads: offloads(device),
            timestamping: device.timestamping.map(JsonTimestamping::new),
            xdp: device.xdp.iter().copied().map(Xdp::new).collect(),
            counters: device.counters.map(|counters| counters.iter().collect()),
            statistics: statistics(device),
            engines: engines(device),
            steal_hazards: device
                .steal_hazards
                .iter()
                .map(ToString::to_string)
                .collect(),
            unread: device.unread.iter().map(ToString::to_string).collect(),
        }
    }
}

#[derive(Serialize)]
struct LinkType {
    value: u16,
    name: Option<&'static str>,
    description: Option<&'static str>,
}

impl LinkType {
    fn new(device: &DeviceInfo) -> Self {
        let link_type = device.link_type;
        Self {
            value: link_type.0,
            name: link_type.name(),
            description: link_type.description(),
        }
    }
}

#[derive(Serialize)]
struct JsonAddress {
    family: &'static str,
    address: IpAddr,
    prefix_length: u8,
    netmask: IpAddr,
    broadcast: Option<IpAddr>,
    peer: Option<IpAddr>,
    scope: u8,
    flags_value: u32,
}

impl JsonAddress {
    fn new(address: &Address) -> Self {
        Self {
            family: family(address.address.is_ipv6()),
            address: address.address,
            prefix_length: address.prefix,
            netmask: address.netmask(),
            broadcast: address.broadcast,
            peer: address.peer,
            scope: address.scope,
            flags_value: address.flags,
        }
    }
}

#[derive(Serialize)]
struct Route {
    family: &'static str,
    gateway: Option<IpAddr>,
    metric: u32,
    table: u32,
}

impl Route {
    fn new(route: &DefaultRoute) -> Self {
        Self {
            family: family(route.is_ipv6),
            gateway: route.gateway,
            metric: route.metric,
            table: route.table,
        }
    }
}

#[derive(Serialize)]
struct Related {
    index: u32,
    name: Option<String>,
    namespace: Option<i32>,
}

impl Related {
    fn new(relation: &Relation) -> Self {
        Self {
            index: relation.index,
            name: relation.name.as_ref().map(text),
            namespace: relation.namespace,
        }
    }
}

#[derive(Serialize)]
struct JsonVlan {
    id: u16,
    protocol: String,
}

impl JsonVlan {
    fn new(vlan: Vlan) -> Self {
        Self {
            id: vlan.id,
            protocol: super::text::tag_protocol(vlan.protocol),
        }
    }
}

#[derive(Serialize)]
struct JsonChannels {
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
}

impl JsonChannels {
    fn new(channels: Channels) -> Self {
        Self {
            rx: channels.rx,
            tx: channels.tx,
            other: channels.other,
            combined: channels.combined,
            max_rx: channels.max_rx,
            max_tx: channels.max_tx,
            max_other: channels.max_other,
            max_combined: channels.max_combined,
        }
    }
}

#[derive(Serialize)]
struct JsonRings {
    rx: u32,
    tx: u32,
    max_rx: u32,
    max_tx: u32,
}

impl JsonRings {
    fn new(rings: Rings) -> Self {
        Self {
            rx: rings.rx,
            tx: rings.tx,
            max_rx: rings.max_rx,
            max_tx: rings.max_tx,
        }
    }
}

#[derive(Serialize)]
struct JsonDriver {
    name: String,
    version: String,
    firmware: String,
    bus: String,
}

impl JsonDriver {
    fn new(driver: &Driver) -> Self {
        Self {
            name: text(&driver.name),
            version: text(&driver.version),
            firmware: text(&driver.firmware),
            bus: text(&driver.bus),
        }
    }
}

#[derive(Serialize)]
struct JsonFeature {
    name: String,
    active: bool,
    requested: bool,
    changeable: bool,
}

impl JsonFeature {
    fn new(feature: &Feature) -> Self {
        Self {
            name: text(&feature.name),
            active: feature.active,
            requested: feature.requested,
            changeable: feature.changeable,
        }
    }
}

#[derive(Serialize)]
struct Offload {
    effect: &'static str,
    undone: bool,
    features: Vec<String>,
}

fn offloads(device: &DeviceInfo) -> Vec<Offload> {
    let offloads = device.active_offloads().into_iter().map(|offload| Offload {
        effect: offload.effect.clause(),
        undone: offload.effect.is_undone(),
        features: offload.features.iter().map(text).collect(),
    });
    offloads.collect()
}

#[derive(Serialize)]
struct JsonTimestamping {
    hardware_receive: bool,
    hardware_receive_all: bool,
    clock: Option<u32>,
    capabilities_value: u32,
    tx_types_value: u32,
    rx_filters_value: u32,
}

impl JsonTimestamping {
    fn new(timestamping: Timestamping) -> Self {
        Self {
            hardware_receive: timestamping.can_stamp_received(),
            hardware_receive_all: timestamping.can_stamp_all(),
            clock: timestamping.clock,
            capabilities_value: timestamping.capabilities,
            tx_types_value: timestamping.tx_types,
            rx_filters_value: timestamping.rx_filters,
        }
    }
}

#[derive(Serialize)]
struct Xdp {
    mode: &'static str,
    id: u32,
}

impl Xdp {
    fn new(program: XdpProgram) -> Self {
        Self {
            mode: xdp_mode(program.mode),
            id: program.id,
        }
    }
}

#[derive(Serialize)]
struct JsonStatistic {
    name: String,
    value: u64,
}

fn statistics(device: &DeviceInfo) -> Vec<JsonStatistic> {
    let statistics = device.statistics.iter();
    statistics
        .map(|one| JsonStatistic {
            name: text(&one.name),
            value: one.value,
        })
        .collect()
}

#[derive(Serialize)]
struct Engine {
    engine: &'static str,
    summary: &'static str,
    usable: bool,
    reason: Option<String>,
}

fn engines(device: &DeviceInfo) -> Vec<Engine> {
    let engines = device.engines().into_iter().map(|support| Engine {
        engine: support.engine,
        summary: support.summary,
        usable: support.obstacle.is_none(),
        reason: support.obstacle.map(|obstacle| obstacle.to_string()),
    });
    engines.collect()
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

fn mac(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| hex(bytes, ":"))
}

/// Returns bytes as pairs of hexadecimal digits.
pub(super) fn hex(bytes: &[u8], separator: &str) -> String {
    let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(separator)
}
