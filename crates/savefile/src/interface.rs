//! A capture file's description of an interface.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::resolution::Clock;
use crate::{LinkType, RawOptions, Resolution};

/// An interface: one per pcapng interface description block, one for a whole pcap file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The header that the packets' data begin with.
    pub link_type: LinkType,
    /// Most bytes captured of a packet, as stated by the file; 0 means no limit. See
    /// [`Interface::effective_snaplen`].
    pub snaplen: u32,
    /// Unit of the timestamps.
    pub resolution: Resolution,
    /// Seconds to add to the timestamps (`if_tsoffset`).
    pub time_offset: i64,
    /// Length of the frame check sequence at the end of each packet, in bits, if stated
    /// (`if_fcslen`, or the upper bits of pcap's link type field).
    pub fcs_len: Option<u8>,
    /// The upper six bits of a pcap header's link type field, in place, including `fcs_len`.
    /// libpcap passes all of them on.
    pub link_type_bits: u32,
    /// Name, such as `eth0` (`if_name`).
    pub name: Option<String>,
    /// Description (`if_description`).
    pub description: Option<String>,
    /// The active filter (`if_filter`).
    pub filter: Option<CaptureFilter>,
    /// Operating system of the machine (`if_os`).
    pub os: Option<String>,
    /// Hardware of the interface (`if_hardware`).
    pub hardware: Option<String>,
    /// Bits per second in both directions (`if_speed`).
    pub speed: Option<u64>,
    /// Bits per second sent (`if_txspeed`).
    pub tx_speed: Option<u64>,
    /// Bits per second received (`if_rxspeed`).
    pub rx_speed: Option<u64>,
    /// MAC address (`if_MACaddr`).
    pub mac: Option<[u8; 6]>,
    /// EUI-64 address (`if_EUIaddr`).
    pub eui: Option<[u8; 8]>,
    /// IPv4 addresses and netmasks (`if_IPv4addr`).
    pub ipv4: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// IPv6 addresses and prefix lengths in bits (`if_IPv6addr`).
    pub ipv6: Vec<(Ipv6Addr, u8)>,
    /// All other options (comments, custom options, unknown and malformed ones), raw.
    pub other: RawOptions,
}

/// The filter of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureFilter {
    /// An expression of pcap-filter (code 0).
    Expression(String),
    /// The bytes of a filter with another code; BPF instructions for code 1.
    Raw {
        /// The first byte of the option.
        code: u8,
        /// The bytes after it.
        bytes: Vec<u8>,
    },
}

impl Interface {
    /// Describes an interface with a link type and a snaplen, with nanosecond timestamps and no
    /// other information.
    #[must_use]
    pub fn new(link_type: LinkType, snaplen: u32) -> Self {
        Self {
            link_type,
            snaplen,
            resolution: Resolution::NANOS,
            time_offset: 0,
            fcs_len: None,
            link_type_bits: 0,
            name: None,
            description: None,
            filter: None,
            os: None,
            hardware: None,
            speed: None,
            tx_speed: None,
            rx_speed: None,
            mac: None,
            eui: None,
            ipv4: Vec::new(),
            ipv6: Vec::new(),
            other: RawOptions::default(),
        }
    }

    /// Returns the most bytes that a packet can hold: the stated snaplen, or, like libpcap, the
    /// link type's maximum if the file states 0 or more than 2^31 - 1.
    #[must_use]
    pub fn effective_snaplen(&self) -> u32 {
        effective_snaplen(self.snaplen, self.link_type)
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock {
            scale: self.resolution.scale(),
            offset: self.time_offset,
        }
    }
}

pub(crate) fn effective_snaplen(stated: u32, link_type: LinkType) -> u32 {
    if stated == 0 || i32::try_from(stated).is_err() {
        link_type.max_snaplen()
    } else {
        stated
    }
}
