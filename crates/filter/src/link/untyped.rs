//! Link types whose header names no protocol. Only bytes, lengths and metadata can be tested; with
//! signalling system 7 also its primitives, with BACnet MS/TP also its addresses.

use super::{Addresses, EtherProto, HeaderOffsets, LinkLayer, equals};
use crate::ir::{Condition, Size, Values};

pub(super) struct Untyped {
    name: &'static str,
    /// The offset of the MTP2 header, minus 2 bytes.
    signal_unit: Option<u32>,
}

impl Untyped {
    /// Returns the link layer of a LINKTYPE_ value; `None` for those that libpcap 1.11 does not
    /// know.
    pub(super) fn new(link_type: u16) -> Option<Self> {
        const KNOWN: std::ops::RangeInclusive<u16> = 104..=304;
        let (name, signal_unit) = match link_type {
            2 => ("experimental Ethernet", None),
            3 => ("AX.25", None),
            4 => ("ProNET", None),
            5 => ("Chaosnet", None),
            32 => ("Redback SmartEdge", None),
            139 => ("MTP2 with pseudo-header", Some(4)),
            140 => ("MTP2", Some(0)),
            141 => ("MTP3", None),
            142 => ("SCCP", None),
            143 | 273 => ("DOCSIS", None),
            144 => ("IrDA", None),
            177 => ("LAPD", None),
            182 => ("Multi-link Frame Relay", None),
            186 | 189 | 220 | 249 | 266 | 288 | 293..=295 => ("USB", None),
            187 | 201 | 251 | 254..=256 | 272 => ("Bluetooth", None),
            190 | 227 => ("CAN", None),
            191 | 195 | 215 | 230 | 283 => ("IEEE 802.15.4", None),
            188 | 193 => ("IEEE 802.16", None),
            196 => ("SITA", None),
            197 => ("ERF", Some(20)),
            199 => ("IPMB", None),
            209 => ("I2C", None),
            202 => ("AX.25", None),
            221 | 301 | 304 => ("DECT", None),
            239 => ("NFLOG", None),
            246 => ("pfsync", None),
            247 => ("InfiniBand", None),
            253 => ("Netlink", None),
            271 => ("vsock", None),
            other if KNOWN.contains(&other) => ("without a protocol field", None),
            _ => return None,
        };
        Some(Self { name, signal_unit })
    }
}

impl LinkLayer for Untyped {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(0, 0)
    }

    fn tells_protocols(&self) -> bool {
        false
    }

    fn signal_unit(&self) -> Option<u32> {
        self.signal_unit
    }

    fn protocol(&self, _: &mut Values, _: HeaderOffsets, _: EtherProto) -> Condition {
        Condition::Constant(false)
    }
}

/// BACnet MS/TP (ANSI/ASHRAE 135, clause 9.3): preamble, frame type, and the addresses of two stations.
pub(super) struct BacnetMsTp;

impl BacnetMsTp {
    const DESTINATION: u32 = 3;
    const SOURCE: u32 = 4;
}

impl LinkLayer for BacnetMsTp {
    fn name(&self) -> &'static str {
        "BACnet MS/TP"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(0, 0)
    }

    fn tells_protocols(&self) -> bool {
        false
    }

    fn stations(&self) -> Option<Addresses> {
        Some(Addresses {
            src: Self::SOURCE,
            dst: Self::DESTINATION,
        })
    }

    fn broadcast(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        const ALL: u32 = 0xff;
        let at = place.header + Self::DESTINATION;
        Some(equals(values, Size::Byte, at, ALL))
    }

    fn protocol(&self, _: &mut Values, _: HeaderOffsets, _: EtherProto) -> Condition {
        Condition::Constant(false)
    }
}
