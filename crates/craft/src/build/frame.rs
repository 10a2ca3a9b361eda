//! Builds layers into bytes, from the innermost out: each depends on its payload and on the layer
//! around it.

mod link;
mod network;
mod transport;

use ringtap_packet::checksum::Sum;
use ringtap_packet::{ether_type, protocol};

use super::field::Fields;
use super::{BuildError, Layer, Result};

/// The names of the layers in the text form.
pub(super) const NAMES: [&str; 21] = [
    "eth", "vlan", "qinq", "mpls", "arp", "ipv4", "ipv6", "hop", "route", "dst", "frag", "tcp",
    "udp", "icmp", "icmpv6", "sctp", "vxlan", "gre", "hex", "zeros", "fill",
];
/// The most layers and bytes of a packet.
const MOST_LAYERS: usize = 64;
pub(super) const MOST_BYTES: usize = 65_535;

/// The addresses that a checksum covers.
#[derive(Clone, Copy)]
enum Addresses {
    V4([u8; 4], [u8; 4]),
    V6([u8; 16], [u8; 16]),
}

impl Addresses {
    /// Returns the sum over the pseudo header and a message with its header.
    fn sum(&self, protocol: u8, message: &[u8]) -> Sum {
        let (source, destination) = match self {
            Self::V4(source, destination) => (&source[..], &destination[..]),
            Self::V6(source, destination) => (&source[..], &destination[..]),
        };
        Sum::of_pseudo_header(source, destination, protocol, message.len()).with(message)
    }
}

/// The context in which a layer is built.
struct LayerContext<'a> {
    layer: &'a Layer,
    /// The layers before and after this one, inside the packet.
    before: &'a [Layer],
    behind: &'a [Layer],
    /// The bytes after this layer.
    payload: Vec<u8>,
}

/// Builds a packet.
pub(super) fn build(layers: &[Layer]) -> Result<Vec<u8>> {
    if layers.is_empty() {
        return Err(BuildError::Empty);
    }
    if layers.len() > MOST_LAYERS {
        return Err(BuildError::Place {
            layer: "packet".to_owned(),
            what: "it has more than 64 layers",
        });
    }
    // Names are checked in reading order: otherwise an unknown layer would give an error for the
    // layer before it.
    let known = |layer: &Layer| layer.data.is_some() || NAMES.contains(&layer.name.as_str());
    if let Some(at) = layers.iter().position(|layer| !known(layer)) {
        return Err(unknown(&layers[at], format!("layer {}", at + 1)));
    }
    let mut payload = Vec::new();
    for (at, layer) in layers.iter().enumerate().rev() {
        let place = LayerContext {
            layer,
            before: &layers[..at],
            behind: &layers[at + 1..],
            payload,
        };
        payload = place.build()?;
        if payload.len() > MOST_BYTES {
            return Err(BuildError::TooLong {
                layer: layer.name.clone(),
                len: payload.len(),
                most: MOST_BYTES,
            });
        }
    }
    Ok(payload)
}

pub(super) fn unknown(layer: &Layer, place: String) -> BuildError {
    let name = layer.name.clone();
    BuildError::Layer { place, name }
}

impl LayerContext<'_> {
    /// Builds the layer with everything after it.
    fn build(self) -> Result<Vec<u8>> {
        if let Some(data) = &self.layer.data {
            return Ok(join(data, &self.payload));
        }
        let mut fields = Fields::of(self.layer);
        let fields_of = &mut fields;
        let built = match self.layer.name.as_str() {
            "eth" => link::ethernet(&self, fields_of),
            "vlan" | "qinq" => link::vlan(&self, fields_of),
            "mpls" => link::mpls(&self, fields_of),
            "arp" => link::arp(&self, fields_of),
            "ipv4" => network::ipv4(&self, fields_of),
            "ipv6" => network::ipv6(&self, fields_of),
            "hop" | "dst" => network::options(&self, fields_of),
            "route" => network::routing(&self, fields_of),
            "frag" => network::fragment(&self, fields_of),
            "tcp" => transport::tcp(&self, fields_of),
            "udp" => transport::udp(&self, fields_of),
            "icmp" | "icmpv6" => transport::icmp(&self, fields_of),
            "sctp" => transport::sctp(&self, fields_of),
            "vxlan" => transport::vxlan(&self, fields_of),
            "gre" => transport::gre(&self, fields_of),
            "hex" => fields_of.hex("").map(|bytes| join(&bytes, &self.payload)),
            "zeros" | "fill" => self.repeated(fields_of),
            _ => return Err(unknown(self.layer, "packet".to_owned())),
        }?;
        fields.end()?;
        Ok(built)
    }

    /// Returns this many bytes of one value.
    fn repeated(&self, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
        let most = u32::try_from(MOST_BYTES).unwrap_or(u32::MAX);
        let count = fields.number("", most)?.unwrap_or(0);
        let byte = if self.layer.name == "fill" {
            fields.u8("byte", 0x41)?
        } else {
            0
        };
        let bytes = vec![byte; usize::try_from(count).unwrap_or(0)];
        Ok(join(&bytes, &self.payload))
    }

    /// Returns the name of the layer after this one; empty for bytes and if there is none.
    fn next(&self) -> &str {
        self.behind.first().map_or("", |layer| layer.name.as_str())
    }

    /// Returns the Ethernet type of the layer after this one (IEEE 802 numbers).
    fn ethertype(&self) -> u16 {
        match self.next() {
            "vlan" => ether_type::VLAN,
            "qinq" => ether_type::QINQ,
            "arp" => ether_type::ARP,
            "ipv4" => ether_type::IPV4,
            "ipv6" => ether_type::IPV6,
            "mpls" => ether_type::MPLS,
            // Local experimental (IEEE 802).
            _ => 0x88b5,
        }
    }

    /// Returns the IP protocol number of the layer after this one (IANA).
    fn protocol(&self) -> u8 {
        match self.next() {
            "hop" => protocol::HOP_BY_HOP,
            "icmp" => protocol::ICMP,
            "ipv4" => protocol::IPV4,
            "tcp" => protocol::TCP,
            "udp" => protocol::UDP,
            "ipv6" => protocol::IPV6,
            "route" => protocol::ROUTING,
            "frag" => protocol::FRAGMENT,
            "gre" => protocol::GRE,
            "icmpv6" => protocol::ICMPV6,
            "dst" => protocol::DESTINATION_OPTIONS,
            "sctp" => protocol::SCTP,
            "mpls" => protocol::MPLS,
            "" if self.behind.is_empty() && self.layer.name != "ipv4" => protocol::NO_NEXT_HEADER,
            // For experiments (RFC 3692).
            _ => 253,
        }
    }

    /// Returns the addresses that a checksum of this layer covers: those of the IP header around
    /// it, with the last stop of its route as destination.
    fn addresses(&self) -> Result<Addresses> {
        let mut last_stop = None;
        for layer in self.before.iter().rev() {
            let mut fields = Fields::of(layer);
            match layer.name.as_str() {
                "ipv4" => return network::addresses_v4(&mut fields),
                "ipv6" => return network::addresses_v6(&mut fields, last_stop),
                "route" => last_stop = last_stop.or(network::last_stop_v6(&mut fields)?),
                "hop" | "dst" | "frag" => {}
                _ => break,
            }
        }
        Err(self.misplaced("it must follow ipv4 or ipv6"))
    }

    fn misplaced(&self, what: &'static str) -> BuildError {
        BuildError::Place {
            layer: self.layer.name.clone(),
            what,
        }
    }

    /// Returns a length field, which counts the payload and `headers` bytes of headers.
    fn length(&self, headers: usize) -> Result<u16> {
        let len = self.payload.len() + headers;
        u16::try_from(len).map_err(|_| BuildError::TooLong {
            layer: self.layer.name.clone(),
            len,
            most: MOST_BYTES,
        })
    }
}

fn join(header: &[u8], payload: &[u8]) -> Vec<u8> {
    [header, payload].concat()
}
