//! Interfaces as the kernel describes them (`RTM_GETLINK`).

use super::configure::link_body;
use super::message::{Attribute, Attributes, Request, read_u16, read_u32};
use super::name::{ALTNAME_MAX, NAME_MAX, Name, check};
use super::{Counters, Error, Netlink, Result};

// Constants that the libc crate lacks (include/uapi/linux/if_link.h).
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
const IFLA_XDP_HW_PROG_ID: u16 = 7;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
const IFLA_PARENT_DEV_NAME: u16 = 56;
const IFLA_PARENT_DEV_BUS_NAME: u16 = 57;
const IFLA_GRO_MAX_SIZE: u16 = 58;
const IFLA_TSO_MAX_SIZE: u16 = 59;
/// Length of `struct ifinfomsg`, in bytes.
const BODY_LEN: usize = 16;
const GET_LINK: (u16, &str) = (libc::RTM_GETLINK, "RTM_GETLINK");

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number in its network namespace.
    pub index: u32,
    /// Its name.
    pub name: Name,
    /// Its alternative names (Linux ≥ 5.5).
    pub altnames: Vec<Name>,
    /// The administrator's description (ifAlias).
    pub alias: Option<Name>,
    /// The type of its link layer (`ARPHRD_…`, `include/uapi/linux/if_arp.h`).
    pub hardware_type: u16,
    /// Its flags (`IFF_…`, netdevice(7)).
    pub flags: u32,
    /// The kind of a virtual interface, such as `veth`, `vlan`, `bond`, `bridge`.
    pub kind: Option<Name>,
    /// Its link-layer address; empty if the link has none.
    pub address: Vec<u8>,
    /// Its permanent link-layer address.
    pub permanent_address: Option<Vec<u8>>,
    /// Its link-layer broadcast address.
    pub broadcast: Vec<u8>,
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
    /// Smallest valid MTU, in bytes.
    pub min_mtu: Option<u32>,
    /// Largest valid MTU, in bytes; `None` if there is no limit.
    pub max_mtu: Option<u32>,
    /// Its operational state.
    pub state: OperationalState,
    /// Whether it has carrier.
    pub carrier: Option<bool>,
    /// Index of the bond or bridge whose port it is.
    pub master: Option<u32>,
    /// Index of the interface below it (VLAN, macvlan) or of its peer (veth).
    pub parent: Option<u32>,
    /// Identifier of the parent's namespace, if that is another one (`ip netns list-id`).
    pub parent_namespace: Option<i32>,
    /// Number of requests for promiscuous mode in effect.
    pub promiscuity: u32,
    /// Receive queues.
    pub rx_queues: Option<u32>,
    /// Transmit queues.
    pub tx_queues: Option<u32>,
    /// Length of the transmit queue of the packet scheduler, in packets.
    pub tx_queue_len: Option<u32>,
    /// The packet scheduler.
    pub scheduler: Option<Name>,
    /// Largest packet that the stack hands over for segmentation, in bytes.
    pub gso_max_size: Option<u32>,
    /// Largest packet that received segments are merged into, in bytes (Linux ≥ 5.19).
    pub gro_max_size: Option<u32>,
    /// Largest packet that the adapter segments, in bytes (Linux ≥ 5.18).
    pub tso_max_size: Option<u32>,
    /// The VLAN of a VLAN sub-interface.
    pub vlan: Option<Vlan>,
    /// The attached XDP programs.
    pub xdp: Vec<XdpProgram>,
    /// The bus of the underlying device (Linux ≥ 5.14).
    pub bus: Option<Name>,
    /// The device's address on [`bus`](Self::bus).
    pub bus_address: Option<Name>,
    /// Packets sent, received and lost.
    pub counters: Counters,
}

/// The tag of a VLAN sub-interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// VLAN identifier.
    pub id: u16,
    /// EtherType of the tag: 0x8100 (IEEE 802.1Q) or 0x88a8 (802.1ad).
    pub protocol: u16,
}

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpProgram {
    /// The place where it runs.
    pub mode: XdpMode,
    /// Its ID (`bpftool prog show id`).
    pub id: u32,
}

/// The place where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the stack, after the driver.
    Generic,
    /// On the adapter.
    Offloaded,
}

/// Operational state (RFC 2863, `ifOperStatus`; `include/uapi/linux/if.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperationalState {
    /// The driver does not report a state, like loopback's.
    #[default]
    Unknown,
    /// Hardware is missing.
    NotPresent,
    /// It cannot carry frames.
    Down,
    /// The underlying interface is down.
    LowerLayerDown,
    /// In a test mode.
    Testing,
    /// Waiting for an event, such as 802.1X.
    Dormant,
    /// It carries frames.
    Up,
}

impl OperationalState {
    fn new(state: u8) -> Self {
        match state {
            1 => Self::NotPresent,
            2 => Self::Down,
            3 => Self::LowerLayerDown,
            4 => Self::Testing,
            5 => Self::Dormant,
            6 => Self::Up,
            _ => Self::Unknown,
        }
    }

    /// Returns the state as one word, as in the SNMP interface table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NotPresent => "not-present",
            Self::Down => "down",
            Self::LowerLayerDown => "lower-layer-down",
            Self::Testing => "testing",
            Self::Dormant => "dormant",
            Self::Up => "up",
        }
    }
}

impl Netlink {
    /// Returns the interface with this name or alternative name. Needs no privilege.
    ///
    /// # Errors
    /// There is no such interface, or the reply is malformed.
    pub fn link(&mut self, name: impl AsRef<[u8]>) -> Result<Link> {
        let name = check(name.as_ref(), ALTNAME_MAX)?;
        let kind = if name.len() > NAME_MAX {
            libc::IFLA_ALT_IFNAME
        } else {
            libc::IFLA_IFNAME
        };
        let (body, context) = (link_body(0, 0, 0), Name::new(name).to_string());
        let mut request = Request::new(GET_LINK, libc::NLM_F_ACK, &body, context);
        request.string(kind, name);
        self.one(request, name)
    }

    /// Returns the interface with this index. Needs no privilege.
    ///
    /// # Errors
    /// There is no such interface, or the reply is malformed.
    pub fn link_at(&mut self, index: u32) -> Result<Link> {
        let name = index.to_string();
        let body = link_body(index, 0, 0);
        let request = Request::new(GET_LINK, libc::NLM_F_ACK, &body, &name);
        self.one(request, name.as_bytes())
    }

    fn one(&mut self, request: Request, name: &[u8]) -> Result<Link> {
        let missing = || Error::NoLink {
            name: Name::new(name),
        };
        let records = self
            .socket
            .execute(request)
            .map_err(|error| match error.errno() {
                Some(libc::ENODEV) => missing(),
                _ => error,
            })?;
        let link = records
            .iter()
            .find(|record| record.kind == libc::RTM_NEWLINK);
        Link::parse(&link.ok_or_else(missing)?.payload)
    }

    /// Returns all interfaces of the namespace, by index. Needs no privilege.
    ///
    /// # Errors
    /// A call fails, the reply is malformed, or interfaces change faster than they can be listed.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let entries = self.table(GET_LINK, &link_body(0, 0, 0), libc::RTM_NEWLINK, |_| true)?;
        let links: Result<Vec<_>> = entries.iter().map(|entry| Link::parse(entry)).collect();
        let mut links = links?;
        links.sort_by_key(|link| link.index);
        Ok(links)
    }
}

impl Link {
    fn parse(payload: &[u8]) -> Result<Self> {
        let attributes = Attributes::after(payload, BODY_LEN, "interface")?;
        // `after` has checked that the body is complete.
        let mut link = Self {
            hardware_type: read_u16(payload, 2).unwrap_or_default(),
            index: read_u32(payload, 4).unwrap_or_default(),
            flags: read_u32(payload, 8).unwrap_or_default(),
            ..Self::default()
        };
        attributes.each(|attribute| {
            if !link.read_identity(&attribute)? {
                link.read_property(&attribute)?;
            }
            Ok(())
        })?;
        Ok(link)
    }

    /// Reads names, addresses and relations; returns false for other attributes.
    fn read_identity(&mut self, attribute: &Attribute<'_>) -> Result<bool> {
        match attribute.kind {
            libc::IFLA_IFNAME => self.name = Name::new(attribute.string()),
            libc::IFLA_IFALIAS => self.alias = Some(Name::new(attribute.string())),
            libc::IFLA_PROP_LIST => self.read_altnames(attribute)?,
            libc::IFLA_LINKINFO => self.read_kind(attribute)?,
            libc::IFLA_ADDRESS => self.address = attribute.value.to_vec(),
            libc::IFLA_BROADCAST => self.broadcast = attribute.value.to_vec(),
            libc::IFLA_PERM_ADDRESS => self.permanent_address = Some(attribute.value.to_vec()),
            libc::IFLA_MASTER => self.master = Some(attribute.u32("IFLA_MASTER")?),
            libc::IFLA_LINK => {
                // Its own index, or 0, means none.
                let parent = attribute.u32("IFLA_LINK")?;
                self.parent = Some(parent).filter(|parent| *parent != 0);
            }
            libc::IFLA_LINK_NETNSID => {
                let id = attribute.i32("IFLA_LINK_NETNSID")?;
                self.parent_namespace = Some(id).filter(|id| *id >= 0);
            }
            IFLA_PARENT_DEV_NAME => self.bus_address = Some(Name::new(attribute.string())),
            IFLA_PARENT_DEV_BUS_NAME => self.bus = Some(Name::new(attribute.string())),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn read_property(&mut self, attribute: &Attribute<'_>) -> Result<()> {
        let number = |what| attribute.u32(what).map(Some);
        match attribute.kind {
            libc::IFLA_MTU => self.mtu = attribute.u32("IFLA_MTU")?,
            libc::IFLA_MIN_MTU => self.min_mtu = number("IFLA_MIN_MTU")?,
            libc::IFLA_MAX_MTU => {
                self.max_mtu = number("IFLA_MAX_MTU")?.filter(|max| *max != 0);
            }
            libc::IFLA_OPERSTATE => {
                self.state = OperationalState::new(attribute.u8("IFLA_OPERSTATE")?);
            }
            libc::IFLA_CARRIER => self.carrier = Some(attribute.u8("IFLA_CARRIER")? != 0),
            libc::IFLA_PROMISCUITY => self.promiscuity = attribute.u32("IFLA_PROMISCUITY")?,
            libc::IFLA_NUM_RX_QUEUES => self.rx_queues = number("IFLA_NUM_RX_QUEUES")?,
            libc::IFLA_NUM_TX_QUEUES => self.tx_queues = number("IFLA_NUM_TX_QUEUES")?,
            libc::IFLA_TXQLEN => self.tx_queue_len = number("IFLA_TXQLEN")?,
            libc::IFLA_QDISC => self.scheduler = Some(Name::new(attribute.string())),
            libc::IFLA_GSO_MAX_SIZE => self.gso_max_size = number("IFLA_GSO_MAX_SIZE")?,
            IFLA_GRO_MAX_SIZE => self.gro_max_size = number("IFLA_GRO_MAX_SIZE")?,
            IFLA_TSO_MAX_SIZE => self.tso_max_size = number("IFLA_TSO_MAX_SIZE")?,
            libc::IFLA_XDP => self.read_xdp(attribute)?,
            libc::IFLA_STATS64 => self.counters = Counters::parse(attribute)?,
            _ => {}
        }
        Ok(())
    }

    fn read_altnames(&mut self, list: &Attribute<'_>) -> Result<()> {
        list.nested().each(|property| {
            if property.kind == libc::IFLA_ALT_IFNAME {
                self.altnames.push(Name::new(property.string()));
            }
            Ok(())
        })
    }

    fn read_kind(&mut self, info: &Attribute<'_>) -> Result<()> {
        let mut data = None;
        info.nested().each(|part| {
            match part.kind {
                libc::IFLA_INFO_KIND => self.kind = Some(Name::new(part.string())),
                libc::IFLA_INFO_DATA => data = Some(part),
                _ => {}
            }
            Ok(())
        })?;
        match data {
            // The meaning of the data depends on the kind.
            Some(data)
                if self
                    .kind
                    .as_ref()
                    .is_some_and(|kind| kind.as_bytes() == b"vlan") =>
            {
                self.read_vlan(&data)
            }
            _ => Ok(()),
        }
    }

    fn read_vlan(&mut self, data: &Attribute<'_>) -> Result<()> {
        let mut vlan = Vlan {
            id: 0,
            protocol: ringtap_packet::ether_type::VLAN,
        };
        data.nested().each(|part| {
            match part.kind {
                IFLA_VLAN_ID => vlan.id = part.u16("IFLA_VLAN_ID")?,
                IFLA_VLAN_PROTOCOL => {
                    vlan.protocol = u16::from_be(part.u16("IFLA_VLAN_PROTOCOL")?);
                }
                _ => {}
            }
            Ok(())
        })?;
        self.vlan = Some(vlan);
        Ok(())
    }

    fn read_xdp(&mut self, xdp: &Attribute<'_>) -> Result<()> {
        let mut attached = 0;
        let mut single = None;
        let mut programs = Vec::new();
        xdp.nested().each(|part| {
            let mode = match part.kind {
                IFLA_XDP_ATTACHED => {
                    attached = part.u8("IFLA_XDP_ATTACHED")?;
                    return Ok(());
                }
                IFLA_XDP_PROG_ID => {
                    single = Some(part.u32("IFLA_XDP_PROG_ID")?);
                    return Ok(());
                }
                IFLA_XDP_DRV_PROG_ID => XdpMode::Native,
                IFLA_XDP_SKB_PROG_ID => XdpMode::Generic,
                IFLA_XDP_HW_PROG_ID => XdpMode::Offloaded,
                _ => return Ok(()),
            };
            programs.push(XdpProgram {
                mode,
                id: part.u32("IFLA_XDP_…_PROG_ID")?,
            });
            Ok(())
        })?;
        // Kernels before 4.19 report the one program without a separate attribute for its mode.
        let mode = match attached {
            1 => Some(XdpMode::Native),
            2 => Some(XdpMode::Generic),
            3 => Some(XdpMode::Offloaded),
            _ => None,
        };
        if let (true, Some(mode), Some(id)) = (programs.is_empty(), mode, single) {
            programs.push(XdpProgram { mode, id });
        }
        self.xdp = programs;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(4 + value.len()).expect("short");
        let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = link_body(7, 0x1003, 0).to_vec();
        bytes[2..4].copy_from_slice(&772_u16.to_ne_bytes());
        bytes.extend(attributes.concat());
        bytes
    }

    #[test]
    fn attributes_are_read_and_unknown_ones_passed_over() {
        let altnames = [attribute(53, b"long-name\0"), attribute(53, b"\xff\0")].concat();
        let vlan = [
            attribute(1, &5_u16.to_ne_bytes()),
            attribute(5, &0x88a8_u16.to_be_bytes()),
        ];
        let info = [attribute(1, b"vlan\0"), attribute(2, &vlan.concat())].concat();
        let xdp = [attribute(2, &[2]), attribute(6, &99_u32.to_ne_bytes())].concat();
        let bytes = message(&[
            attribute(3, b"v5\0"),
            attribute(9999, b"whatever"),
            attribute(52 | 1 << 15, &altnames),
            attribute(18, &info),
            attribute(43, &xdp),
            attribute(16, &[6]),
        ]);
        let link = Link::parse(&bytes).expect("well-formed");
        assert_eq!(
            (link.index, link.flags, link.hardware_type),
            (7, 0x1003, 772)
        );
        assert_eq!(link.name, Name::new(b"v5"));
        assert_eq!(link.altnames, [Name::new(b"long-name"), Name::new(b"\xff")]);
        assert_eq!(
            link.vlan,
            Some(Vlan {
                id: 5,
                protocol: 0x88a8
            })
        );
        assert_eq!(
            link.xdp,
            [XdpProgram {
                mode: XdpMode::Generic,
                id: 99
            }]
        );
        assert_eq!(link.state, OperationalState::Up);
    }

    #[test]
    fn malformed_attributes_are_typed_errors() {
        let whole = message(&[attribute(4, &1500_u32.to_ne_bytes())]);
        assert_eq!(Link::parse(&whole).expect("well-formed").mtu, 1500);
        for len in 0..whole.len() {
            let cut = Link::parse(&whole[..len]);
            // Cut before the attribute, the message is complete.
            assert_eq!(cut.is_ok(), len == BODY_LEN, "{len}: {cut:?}");
        }
        let short = message(&[attribute(4, &[1, 2])]);
        let error = Link::parse(&short).expect_err("an MTU of two bytes");
        let text = "malformed netlink reply: IFLA_MTU at byte 20: 2 of 4 bytes";
        assert_eq!(error.to_string(), text);
        let mut endless = whole;
        endless[16..18].copy_from_slice(&0_u16.to_ne_bytes());
        assert!(matches!(
            Link::parse(&endless),
            Err(Error::Malformed { offset: 16, .. })
        ));
    }
}
