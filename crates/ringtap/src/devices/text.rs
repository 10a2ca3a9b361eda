//! Prints the devices as blocks of text for people.
//!
//! Everything from the system is a [`Name`], whose display escapes characters that could harm a terminal.

use std::fmt::Write as _;
use std::io::{self, Write};

use ringtap_capture::devices::{Channels, Counters, DeviceInfo, Name, Obstacle, Relation, Rings};
use ringtap_packet::ether_type;

use super::json::{hex, xdp_mode};

/// Width of the labels, in characters.
const LABEL_WIDTH: usize = 12;
/// The main routing table (`RT_TABLE_MAIN`).
const MAIN_TABLE: u32 = 254;

/// Prints one block per device, with an empty line between.
pub(super) fn print(devices: &[DeviceInfo], verbose: bool, out: &mut impl Write) -> io::Result<()> {
    for (at, device) in devices.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        out.write_all(Block::of(device, verbose).text.as_bytes())?;
    }
    Ok(())
}

/// A block under construction.
struct Block {
    text: String,
}

impl Block {
    fn of(device: &DeviceInfo, verbose: bool) -> Self {
        let mut block = Self {
            text: heading(device),
        };
        block.identity(device);
        block.network(device);
        block.adapter(device);
        if let Some(counters) = &device.counters {
            block.counters(counters, verbose);
        }
        block.statistics(device, verbose);
        block.offloads(device);
        block.engines(device);
        for hazard in &device.steal_hazards {
            block.line("not stolen", &format!("without --force: {hazard}"));
        }
        for error in &device.unread {
            block.line("unknown", &error.to_string());
        }
        block
    }

    /// Adds a labelled line.
    fn line(&mut self, label: &str, text: &str) {
        writeln!(self.text, "    {label:LABEL_WIDTH$}{text}").expect("a String takes everything");
    }

    /// Adds a labelled line whose parts may be missing. Without any part, there is no line.
    fn parts(&mut self, label: &str, parts: impl IntoIterator<Item = Option<String>>) {
        let present: Vec<_> = parts.into_iter().flatten().collect();
        if !present.is_empty() {
            self.line(label, &present.join(", "));
        }
    }

    fn identity(&mut self, device: &DeviceInfo) {
        for altname in &device.altnames {
            self.line("also called", &altname.to_string());
        }
        if let Some(alias) = &device.alias {
            self.line("alias", &alias.to_string());
        }
        self.parts("link type", [Some(link_type(device))]);
        let permanent = device
            .permanent_mac
            .as_ref()
            .filter(|mac| **mac != device.mac);
        self.parts(
            "MAC",
            [
                some(&device.mac).map(|mac| hex(mac, ":")),
                permanent.map(|mac| format!("permanently {}", hex(mac, ":"))),
            ],
        );
        let role = match device.kind.as_ref().map(Name::as_bytes) {
            Some(b"veth") => "peer",
            _ => "parent",
        };
        self.parts(role, [device.parent.as_ref().map(relation)]);
        self.parts("port of", [device.master.as_ref().map(relation)]);
        let vlan = device
            .vlan
            .map(|vlan| format!("{}, {}", vlan.id, tag_protocol(vlan.protocol)));
        self.parts("VLAN", [vlan]);
    }

    fn network(&mut self, device: &DeviceInfo) {
        for address in &device.addresses {
            self.parts(
                "address",
                [
                    Some(format!("{}/{}", address.address, address.prefix)),
                    address
                        .address
                        .is_ipv4()
                        .then(|| format!("netmask {}", address.netmask())),
                    address
                        .broadcast
                        .map(|broadcast| format!("broadcast {broadcast}")),
                    address.peer.map(|peer| format!("peer {peer}")),
                ],
            );
        }
        for route in &device.default_routes {
            let family = if route.is_ipv6 { "IPv6" } else { "IPv4" };
            self.parts(
                "default",
                [
                    Some(route.gateway.map_or_else(
                        || format!("{family} on the link itself"),
                        |gateway| format!("{family} via {gateway}"),
                    )),
                    (route.metric != 0).then(|| format!("metric {}", route.metric)),
                    (route.table != MAIN_TABLE).then(|| format!("table {}", route.table)),
                ],
            );
        }
    }

    fn adapter(&mut self, device: &DeviceInfo) {
        if let Some(driver) = &device.driver {
            let labelled =
                |label: &str, name: &Name| some(name.as_bytes()).map(|_| format!("{label} {name}"));
            self.parts(
                "driver",
                [
                    Some(driver.name.to_string()),
                    labelled("version", &driver.version),
                    labelled("firmware", &driver.firmware),
                    labelled("at", &driver.bus),
                ],
            );
        }
        if let Some(mode) = device.link_mode {
            self.parts(
                "speed",
                [
                    mode.speed.map(|speed| format!("{speed} Mbit/s")),
                    mode.full_duplex
                        .map(|full| format!("{} duplex", if full { "full" } else { "half" })),
                ],
            );
        }
        self.parts(
            "queues",
            [
                device.rx_queues.map(|queues| format!("{queues} receive")),
                device.tx_queues.map(|queues| format!("{queues} transmit")),
                device.channels.map(channels),
            ],
        );
        self.parts("rings", [device.rings.map(rings)]);
        if let Some(stamps) = device
            .timestamping
            .filter(|stamps| stamps.can_stamp_received())
        {
            let which = if stamps.can_stamp_all() {
                "all"
            } else {
                "some"
            };
            self.parts(
                "timestamps",
                [
                    Some(format!("in hardware of {which} received packets")),
                    stamps.clock.map(|clock| format!("clock /dev/ptp{clock}")),
                ],
            );
        }
        for program in &device.xdp {
            self.line(
                "XDP",
                &format!("program {}, {}", program.id, xdp_mode(program.mode)),
            );
        }
    }

    fn counters(&mut self, n: &Counters, verbose: bool) {
        self.line(
            "received",
            &format!(
                "{} packets, {} bytes; {} errors, {} dropped, {} missed (no buffer), {} overrun, \
                 {} CRC, {} frame, {} FIFO, {} length",
                n.rx_packets,
                n.rx_bytes,
                n.rx_errors,
                n.rx_dropped,
                n.rx_missed_errors,
                n.rx_over_errors,
                n.rx_crc_errors,
                n.rx_frame_errors,
                n.rx_fifo_errors,
                n.rx_length_errors,
            ),
        );
        self.line(
            "sent",
            &format!(
                "{} packets, {} bytes; {} errors, {} dropped, {} collisions, {} carrier, {} FIFO",
                n.tx_packets,
                n.tx_bytes,
                n.tx_errors,
                n.tx_dropped,
                n.collisions,
                n.tx_carrier_errors,
                n.tx_fifo_errors,
            ),
        );
        let is_shown = |name: &str| SHOWN.split(' ').any(|shown| shown == name);
        let others = n
            .iter()
            .filter(|(name, value)| !is_shown(name) && (verbose || *value != 0));
        self.parts(
            "others",
            others.map(|(name, value)| Some(format!("{name} {value}"))),
        );
    }

    fn statistics(&mut self, device: &DeviceInfo, verbose: bool) {
        let wanted = device
            .statistics
            .iter()
            .filter(|one| verbose || one.value != 0);
        for one in wanted {
            self.line("adapter", &format!("{} {}", one.name, one.value));
        }
    }

    fn offloads(&mut self, device: &DeviceInfo) {
        for offload in device.active_offloads() {
            let names: Vec<_> = offload.features.iter().map(ToString::to_string).collect();
            self.line(
                "offload",
                &format!("{} ({})", offload.effect.clause(), names.join(", ")),
            );
        }
    }

    /// Adds a line for each usable engine, and one for each reason why others are not usable.
    fn engines(&mut self, device: &DeviceInfo) {
        let mut obstacles: Vec<(Obstacle, Vec<&str>)> = Vec::new();
        for support in device.engines() {
            let Some(obstacle) = support.obstacle else {
                self.line(
                    "engine",
                    &format!("{} ({})", support.engine, support.summary),
                );
                continue;
            };
            match obstacles.iter_mut().find(|(known, _)| *known == obstacle) {
                Some((_, engines)) => engines.push(support.engine),
                None => obstacles.push((obstacle, vec![support.engine])),
            }
        }
        for (obstacle, engines) in obstacles {
            self.line("not usable", &format!("{}: {obstacle}", engines.join(", ")));
        }
    }
}

/// The counters that appear in the two lines of every device.
const SHOWN: &str = "rx_packets rx_bytes rx_errors rx_dropped rx_missed_errors rx_over_errors rx_crc_errors \
                     rx_frame_errors rx_fifo_errors rx_length_errors tx_packets tx_bytes tx_errors tx_dropped \
                     collisions tx_carrier_errors tx_fifo_errors";

fn heading(device: &DeviceInfo) -> String {
    if device.is_any() {
        return format!("{}: all interfaces together\n", device.name);
    }
    let kind = device
        .kind
        .as_ref()
        .map(|kind| format!(" ({kind})"))
        .unwrap_or_default();
    let flags: Vec<_> = device.flags.names().collect();
    let promiscuous = match device.promiscuity {
        0 => String::new(),
        parties => format!("; promiscuous for {parties}"),
    };
    format!(
        "{}: {}{kind}: state {}; {}{promiscuous}\n",
        device.index,
        device.name,
        device.state.name(),
        flags.join(" "),
    )
}

fn link_type(device: &DeviceInfo) -> String {
    let link_type = device.link_type;
    let name = link_type
        .name()
        .map_or_else(|| link_type.0.to_string(), str::to_owned);
    let description = link_type
        .description()
        .map(|text| format!(" ({text})"))
        .unwrap_or_default();
    let mtu = match device.mtu {
        0 => String::new(),
        mtu => format!(", MTU {mtu}"),
    };
    format!("{name}{description}{mtu}")
}

fn relation(relation: &Relation) -> String {
    match (&relation.name, relation.namespace) {
        (Some(name), _) => format!("{name} (interface {})", relation.index),
        (None, Some(id)) => format!("interface {} in namespace {id}", relation.index),
        (None, None) => format!("interface {}", relation.index),
    }
}

/// Returns the IEEE standard of a VLAN tag by its EtherType.
pub(super) fn tag_protocol(ether_type: u16) -> String {
    match ether_type {
        ether_type::VLAN => "802.1Q".to_owned(),
        ether_type::QINQ => "802.1ad".to_owned(),
        other => format!("0x{other:04x}"),
    }
}

fn channels(channels: Channels) -> String {
    let kinds = [
        ("receive", channels.rx, channels.max_rx),
        ("transmit", channels.tx, channels.max_tx),
        ("combined", channels.combined, channels.max_combined),
        ("other", channels.other, channels.max_other),
    ];
    let present = kinds.iter().filter(|(_, _, max)| *max != 0);
    let texts: Vec<_> = present
        .map(|(kind, n, max)| format!("{n} of {max} {kind}"))
        .collect();
    format!("adapter {}", texts.join(" and "))
}

fn rings(rings: Rings) -> String {
    format!(
        "receive {} of {}, transmit {} of {}",
        rings.rx, rings.max_rx, rings.tx, rings.max_tx
    )
}

fn some(bytes: &[u8]) -> Option<&[u8]> {
    (!bytes.is_empty()).then_some(bytes)
}
