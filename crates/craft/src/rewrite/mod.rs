//! Changes packets: addresses, ports, VLAN tags. Correct checksums stay correct, wrong ones stay
//! wrong.
//!
//! Input: an Ethernet frame and rules. Output: the frame, changed in place. Packets that lack a
//! field are unchanged; so is everything inside tunnels.

mod rule;

pub use rule::{Mac, Rule, RuleError};

use std::ops::Range;

use ringtap_packet::bytes::be16;
use ringtap_packet::headers::route::Stop;
use ringtap_packet::{ether_type, protocol};

use crate::checksum;
use crate::layers::{self, Ip, Network};
use rule::{Change, Side};

/// The offset after the addresses of an Ethernet frame.
const TAGS_AT: usize = 12;
const TAG_LEN: usize = 4;

/// Applies the rules in their order.
pub fn apply(rules: &[Rule], frame: &mut Vec<u8>) {
    for rule in rules {
        let network = layers::find(frame);
        let network = network.as_ref();
        match rule.change {
            Change::Mac(old, new) => change_macs(frame, network, rule.side, old, new),
            Change::Ip(old, new) => change_addresses(frame, network, rule.side, |address| {
                let matches = old.is_none_or(|old| old.contains(address));
                matches.then(|| new.mapped(address)).flatten()
            }),
            Change::Port(old, new) => change_ports(frame, network, rule.side, old, new),
            Change::Vlan(old, new) => change_tag(frame, old, new),
        }
    }
}

/// Changes Ethernet's addresses, and the corresponding ones in ARP.
fn change_macs(
    frame: &mut [u8],
    network: Option<&Network>,
    side: Side,
    old: Option<[u8; 6]>,
    new: [u8; 6],
) {
    let mut places = vec![(0, 6..12), (1, 0..6)];
    if let Some(Network::Arp(at)) = network {
        places.extend([(0, at + 8..at + 14), (1, at + 18..at + 24)]);
    }
    for (index, place) in places {
        let Some(mac) = frame.get_mut(place.clone()) else {
            continue;
        };
        // In a request for an address, ARP's target is unknown.
        let is_unknown = place.start > TAGS_AT && mac == [0; 6];
        if side.includes(index) && !is_unknown && old.is_none_or(|old| old == *mac) {
            mac.copy_from_slice(&new);
        }
    }
}

fn change_addresses(
    frame: &mut [u8],
    network: Option<&Network>,
    side: Side,
    map: impl Fn(&[u8]) -> Option<[u8; 16]>,
) {
    let (places, ip) = match network {
        Some(Network::Arp(at)) => ([at + 14..at + 18, at + 24..at + 28], None),
        Some(Network::Ip(ip)) => (ip.addresses(), Some(ip)),
        None => return,
    };
    for (index, place) in places.into_iter().enumerate() {
        let new = side.includes(index).then(|| map(&frame[place.clone()]));
        let Some(new) = new.flatten() else { continue };
        let new = &new[..place.len()];
        if let Some(ip) = ip {
            cover_address(frame, ip, place.clone(), new);
        }
        frame[place].copy_from_slice(new);
    }
}

/// Adjusts the checksums that cover an address.
fn cover_address(frame: &mut [u8], ip: &Ip, place: Range<usize>, new: &[u8]) {
    if let Some(at) = ip.header_checksum() {
        adjust(frame, at, place.clone(), new);
    }
    // If the packet has a source route, the checksum does not cover the header's destination.
    let is_covered =
        ip.has_pseudo_header() && (place == ip.addresses()[0] || ip.last_stop == Stop::Reached);
    if let Some(at) = ip.transport_checksum().filter(|_| is_covered) {
        adjust_transport(frame, ip, at, place, new);
    }
}

fn change_ports(
    frame: &mut [u8],
    network: Option<&Network>,
    side: Side,
    old: Option<u16>,
    new: u16,
) {
    let Some(Network::Ip(ip)) = network else {
        return;
    };
    for (index, place) in ip.ports().into_iter().flatten().enumerate() {
        let current = be16(frame, place.start);
        if !side.includes(index) || old.is_some_and(|old| current != Some(old)) {
            continue;
        }
        let new = new.to_be_bytes();
        if let Some(at) = ip.transport_checksum() {
            adjust_transport(frame, ip, at, place.clone(), &new);
        }
        checksum::adjust_sctp(frame, ip, place.clone(), &new);
        frame[place].copy_from_slice(&new);
    }
}

fn adjust(frame: &mut [u8], at: usize, place: Range<usize>, new: &[u8]) {
    let Some(current) = be16(frame, at) else {
        return;
    };
    let adjusted = ringtap_packet::checksum::adjust(current, &frame[place], new);
    checksum::write(frame, at, adjusted);
}

/// Like [`adjust`], with UDP's zero, which means that there is no checksum.
fn adjust_transport(frame: &mut [u8], ip: &Ip, at: usize, place: Range<usize>, new: &[u8]) {
    let is_udp = ip.protocol == protocol::UDP;
    if is_udp && be16(frame, at) == Some(0) {
        return;
    }
    adjust(frame, at, place, new);
    if is_udp && be16(frame, at) == Some(0) {
        checksum::write(frame, at, 0xffff);
    }
}

/// Changes the outermost tag: sets another identifier, adds it, or removes it.
fn change_tag(frame: &mut Vec<u8>, old: Option<u16>, new: Option<u16>) {
    if frame.len() < TAGS_AT + 2 {
        return;
    }
    let is_tagged = be16(frame, TAGS_AT).is_some_and(ether_type::is_tag);
    let control = be16(frame, TAGS_AT + 2).filter(|_| is_tagged);
    let is_meant = old.is_none_or(|old| control.is_some_and(|control| control & 0xfff == old));
    match (control, new) {
        _ if !is_meant => {}
        // The priority bits are unchanged.
        (Some(control), Some(id)) => checksum::write(frame, TAGS_AT + 2, control & 0xf000 | id),
        (Some(_), None) => {
            frame.drain(TAGS_AT..TAGS_AT + TAG_LEN);
        }
        (None, Some(id)) => {
            let tag = [ether_type::VLAN, id].map(u16::to_be_bytes);
            frame.splice(TAGS_AT..TAGS_AT, tag.into_iter().flatten());
        }
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests;
