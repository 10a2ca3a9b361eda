//! Creates, changes and removes interfaces.
//!
//! Every call needs `CAP_NET_ADMIN` over the network namespace that the socket belongs to.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use ringtap_packet::ether_type;

use super::message::Request;
use super::name::{ALTNAME_MAX, NAME_MAX, Name, check};
use super::socket::Socket;
use super::{OperationalState, Result};

// Constants that the libc crate lacks (include/uapi/linux/rtnetlink.h, veth.h, if_link.h,
// if_addr.h).
const RTM_NEWLINKPROP: u16 = 108;
const RTM_DELLINKPROP: u16 = 109;
const VETH_INFO_PEER: u16 = 1;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
const IFLA_BOND_MODE: u16 = 1;
const IFLA_MACVLAN_MODE: u16 = 1;
const MACVLAN_MODE_BRIDGE: u32 = 4;
const IFA_FLAGS: u16 = 8;

const CREATE: i32 = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
const NEW_LINK: (u16, &str) = (libc::RTM_NEWLINK, "RTM_NEWLINK");

/// The properties of a new interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// MAC address; random by default.
    pub mac: Option<[u8; 6]>,
    /// Largest payload of a frame, in bytes; by default that of the kind.
    pub mtu: Option<u32>,
    /// Number of receive queues; by default that of the kind.
    pub rx_queues: Option<u32>,
    /// Number of transmit queues; by default that of the kind.
    pub tx_queues: Option<u32>,
}

impl LinkOptions {
    fn append(&self, request: &mut Request) {
        if let Some(mac) = self.mac {
            request.attribute(libc::IFLA_ADDRESS, &mac);
        }
        let numbers = [
            (libc::IFLA_MTU, self.mtu),
            (libc::IFLA_NUM_RX_QUEUES, self.rx_queues),
            (libc::IFLA_NUM_TX_QUEUES, self.tx_queues),
        ];
        for (kind, value) in numbers {
            if let Some(value) = value {
                request.number(kind, value);
            }
        }
    }
}

/// A pair of virtual Ethernet interfaces to create: frames sent to one are received from the other.
#[derive(Clone, Debug)]
pub struct Veth<'a> {
    /// Name of the first end, in the namespace of the socket.
    pub name: &'a [u8],
    /// Properties of the first end.
    pub options: LinkOptions,
    /// Name of the other end.
    pub peer_name: &'a [u8],
    /// Properties of the other end.
    pub peer_options: LinkOptions,
    /// The namespace of the other end; by default the socket's.
    pub peer_namespace: Option<BorrowedFd<'a>>,
}

impl<'a> Veth<'a> {
    /// Returns a pair in one namespace with the kernel's defaults.
    #[must_use]
    pub fn new(name: &'a str, peer_name: &'a str) -> Self {
        Self {
            name: name.as_bytes(),
            options: LinkOptions::default(),
            peer_name: peer_name.as_bytes(),
            peer_options: LinkOptions::default(),
            peer_namespace: None,
        }
    }
}

/// An rtnetlink client for one network namespace: that of the thread that opened it, whichever
/// thread uses it.
#[derive(Debug)]
pub struct Netlink {
    pub(super) socket: Socket,
}

impl Netlink {
    /// Opens a client for the network namespace of the calling thread. Needs no privilege.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn open() -> Result<Self> {
        Ok(Self {
            socket: Socket::open()?,
        })
    }

    /// Returns a number of the network namespace that no later one gets, unlike its inode number. `None` before Linux
    /// 5.14.
    #[must_use]
    pub fn namespace_cookie(&self) -> Option<u64> {
        self.socket.namespace_cookie()
    }

    /// Creates a veth pair (rtnetlink `RTM_NEWLINK`, kind `veth`), both ends down.
    ///
    /// # Errors
    /// A name is invalid or in use, or the kernel rejects the request.
    pub fn create_veth(&mut self, veth: &Veth<'_>) -> Result<()> {
        let peer_name = check(veth.peer_name, NAME_MAX)?;
        let data = |data: &mut Request| {
            data.nested(VETH_INFO_PEER, |peer| {
                peer.body(&link_body(0, 0, 0));
                peer.string(libc::IFLA_IFNAME, peer_name);
                veth.peer_options.append(peer);
                if let Some(namespace) = veth.peer_namespace {
                    peer.attribute(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
                }
            });
        };
        self.make(b"veth", veth.name, &veth.options, None, Some(&data))
    }

    /// Creates an interface of a kind, on the interface `parent` if there is one; `data` appends the
    /// parameters of the kind.
    fn make(
        &mut self,
        kind: &[u8],
        name: &[u8],
        options: &LinkOptions,
        parent: Option<u32>,
        data: Option<&dyn Fn(&mut Request)>,
    ) -> Result<()> {
        let name = check(name, NAME_MAX)?;
        let context = Name::new(name).to_string();
        let mut request = Request::new(NEW_LINK, CREATE, &link_body(0, 0, 0), context);
        request.string(libc::IFLA_IFNAME, name);
        options.append(&mut request);
        if let Some(parent) = parent {
            request.number(libc::IFLA_LINK, parent);
        }
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.attribute(libc::IFLA_INFO_KIND, kind);
            if let Some(data) = data {
                info.nested(libc::IFLA_INFO_DATA, data);
            }
        });
        self.change(request)
    }

    /// Creates a VLAN sub-interface of `parent` with the VLAN identifier `id` (kind `vlan`). The
    /// tag is IEEE 802.1Q, or 802.1ad if `service` is set.
    ///
    /// # Errors
    /// The parent does not exist, a name is invalid or in use, or the kernel rejects the request;
    /// `EOPNOTSUPP` if it was built without VLANs.
    pub fn create_vlan(
        &mut self,
        parent: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        id: u16,
        service: bool,
    ) -> Result<()> {
        let parent = self.index(parent)?;
        let protocol = if service {
            ether_type::QINQ
        } else {
            ether_type::VLAN
        };
        let data = |data: &mut Request| {
            data.attribute(IFLA_VLAN_ID, &id.to_ne_bytes());
            data.attribute(IFLA_VLAN_PROTOCOL, &protocol.to_be_bytes());
        };
        let (name, options) = (name.as_ref(), LinkOptions::default());
        self.make(b"vlan", name, &options, Some(parent), Some(&data))
    }

    /// Creates another interface with its own MAC address on `parent` (kind `macvlan`, bridge
    /// mode).
    ///
    /// # Errors
    /// The same as [`create_vlan`](Self::create_vlan).
    pub fn create_macvlan(
        &mut self,
        parent: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        options: &LinkOptions,
    ) -> Result<()> {
        let parent = self.index(parent)?;
        let data = |data: &mut Request| data.number(IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE);
        self.make(
            b"macvlan",
            name.as_ref(),
            options,
            Some(parent),
            Some(&data),
        )
    }

    /// Creates an interface of a kind without parameters, such as `bridge` or `dummy`, which drops
    /// all packets sent to it.
    ///
    /// # Errors
    /// The name is invalid or in use, or the kernel rejects the request; `EOPNOTSUPP` if it lacks
    /// the kind.
    pub fn create(
        &mut self,
        kind: &str,
        name: impl AsRef<[u8]>,
        options: &LinkOptions,
    ) -> Result<()> {
        let kind = check(kind.as_bytes(), NAME_MAX)?;
        self.make(kind, name.as_ref(), options, None, None)
    }

    /// Creates a bond (kind `bond`) with a mode: 0 is `balance-rr`, 1 `active-backup` and so on
    /// (Documentation/networking/bonding.rst). To add an interface, call
    /// [`set_master`](Self::set_master) while it is down.
    ///
    /// # Errors
    /// The same as [`create`](Self::create), or there is no such mode.
    pub fn create_bond(&mut self, name: impl AsRef<[u8]>, mode: u8) -> Result<()> {
        let data = |data: &mut Request| data.attribute(IFLA_BOND_MODE, &[mode]);
        self.make(
            b"bond",
            name.as_ref(),
            &LinkOptions::default(),
            None,
            Some(&data),
        )
    }

    /// Removes an interface; for a veth pair, both ends.
    ///
    /// # Errors
    /// There is no such interface, or the kernel rejects the request.
    pub fn delete(&mut self, name: impl AsRef<[u8]>) -> Result<()> {
        let kind = (libc::RTM_DELLINK, "RTM_DELLINK");
        let request = self.request(kind, libc::NLM_F_ACK, name.as_ref(), (0, 0))?;
        self.change(request)
    }

    /// Sets an interface up or down. Returns before the carrier is known: see
    /// [`wait_until_up`](Self::wait_until_up).
    ///
    /// # Errors
    /// There is no such interface, or the kernel rejects the request.
    pub fn set_up(&mut self, name: impl AsRef<[u8]>, up: bool) -> Result<()> {
        self.set_flag(name.as_ref(), libc::IFF_UP.cast_unsigned(), up)
    }

    /// Switches promiscuous mode on or off: while it is on, the interface receives every frame,
    /// whatever its destination.
    ///
    /// # Errors
    /// There is no such interface, or the kernel rejects the request.
    pub fn set_promiscuous(&mut self, name: impl AsRef<[u8]>, on: bool) -> Result<()> {
        self.set_flag(name.as_ref(), libc::IFF_PROMISC.cast_unsigned(), on)
    }

    fn set_flag(&mut self, name: &[u8], flag: u32, on: bool) -> Result<()> {
        let flags = if on { flag } else { 0 };
        let request = self.request(NEW_LINK, libc::NLM_F_ACK, name, (flags, flag))?;
        self.change(request)
    }

    /// Waits until the interface can carry frames: until its operational state is up, or for
    /// loopback, until it is set up. Returns false after `limit`. For kinds whose drivers do not
    /// report their state (`dummy`, `tun`), it always waits for `limit`.
    ///
    /// # Errors
    /// There is no such interface, or the kernel rejects the request.
    pub fn wait_until_up(&mut self, name: impl AsRef<[u8]>, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            let link = self.link(name.as_ref())?;
            // The flag IFF_RUNNING would be too early: it is also set before the kernel has checked
            // the carrier, while the transmit queue still drops all packets.
            let is_loopback = link.flags & libc::IFF_LOOPBACK.cast_unsigned() != 0
                && link.flags & libc::IFF_UP.cast_unsigned() != 0;
            if link.state == OperationalState::Up || is_loopback {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sets the largest payload of a frame, in bytes.
    ///
    /// # Errors
    /// There is no such interface, or the interface does not support the value.
    pub fn set_mtu(&mut self, name: impl AsRef<[u8]>, mtu: u32) -> Result<()> {
        self.modify(name.as_ref(), |request| request.number(libc::IFLA_MTU, mtu))
    }

    /// Sets the MAC address.
    ///
    /// # Errors
    /// There is no such interface, or the kernel rejects the request.
    pub fn set_mac(&mut self, name: impl AsRef<[u8]>, mac: [u8; 6]) -> Result<()> {
        self.modify(name.as_ref(), |request| {
            request.attribute(libc::IFLA_ADDRESS, &mac);
        })
    }

    /// Makes an interface a port of a bridge or bond, or with `None` releases it.
    ///
    /// # Errors
    /// There is no such interface, or the master rejects it.
    pub fn set_master(&mut self, name: impl AsRef<[u8]>, master: Option<&[u8]>) -> Result<()> {
        let master = master.map_or(Ok(0), |master| self.index(master))?;
        self.modify(name.as_ref(), |request| {
            request.number(libc::IFLA_MASTER, master);
        })
    }

    /// Renames an interface.
    ///
    /// # Errors
    /// There is no such interface, or the new name is invalid or in use.
    pub fn rename(&mut self, name: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let to = check(to.as_ref(), NAME_MAX)?;
        self.modify(name.as_ref(), |request| {
            request.string(libc::IFLA_IFNAME, to);
        })
    }

    /// Moves an interface to another network namespace.
    ///
    /// # Errors
    /// There is no such interface, the name is in use there, or the interface cannot be moved
    /// (loopback).
    pub fn move_to(&mut self, name: impl AsRef<[u8]>, namespace: BorrowedFd<'_>) -> Result<()> {
        let fd = namespace.as_raw_fd().to_ne_bytes();
        self.modify(name.as_ref(), |request| {
            request.attribute(libc::IFLA_NET_NS_FD, &fd);
        })
    }

    /// Adds an alternative name to an interface (`RTM_NEWLINKPROP`, Linux ≥ 5.5), up to
    /// [`ALTNAME_MAX`] bytes.
    ///
    /// # Errors
    /// There is no such interface, or the name is invalid or in use.
    pub fn add_altname(&mut self, name: impl AsRef<[u8]>, altname: impl AsRef<[u8]>) -> Result<()> {
        let kind = (RTM_NEWLINKPROP, "RTM_NEWLINKPROP");
        self.altname(
            kind,
            CREATE | libc::NLM_F_APPEND,
            name.as_ref(),
            altname.as_ref(),
        )
    }

    /// Removes an alternative name (`RTM_DELLINKPROP`, Linux ≥ 5.5).
    ///
    /// # Errors
    /// There is no such interface or name.
    pub fn remove_altname(
        &mut self,
        name: impl AsRef<[u8]>,
        altname: impl AsRef<[u8]>,
    ) -> Result<()> {
        let kind = (RTM_DELLINKPROP, "RTM_DELLINKPROP");
        self.altname(kind, libc::NLM_F_ACK, name.as_ref(), altname.as_ref())
    }

    fn altname(
        &mut self,
        kind: (u16, &'static str),
        flags: i32,
        name: &[u8],
        altname: &[u8],
    ) -> Result<()> {
        let mut request = self.request(kind, flags, name, (0, 0))?;
        let altname = check(altname, ALTNAME_MAX)?;
        request.nested(libc::IFLA_PROP_LIST, |list| {
            list.string(libc::IFLA_ALT_IFNAME, altname);
        });
        self.change(request)
    }

    /// Adds an address to an interface. An IPv6 address skips duplicate address detection. Even so,
    /// the kernel receives on it only a moment later: see
    /// [`wait_until_local`](Self::wait_until_local).
    ///
    /// # Errors
    /// There is no such interface, the prefix is longer than the address, or the kernel rejects the
    /// request.
    pub fn add_address(
        &mut self,
        name: impl AsRef<[u8]>,
        address: IpAddr,
        prefix: u8,
    ) -> Result<()> {
        let index = self.index(name.as_ref())?;
        let body = address_body(address, prefix, index);
        let context = format!("{address}/{prefix} on {}", Name::new(name.as_ref()));
        let mut request = Request::new((libc::RTM_NEWADDR, "RTM_NEWADDR"), CREATE, &body, context);
        with_octets(address, |octets| {
            request.attribute(libc::IFA_LOCAL, octets);
            request.attribute(libc::IFA_ADDRESS, octets);
        });
        if let IpAddr::V4(v4) = address
            && prefix < 31
        {
            let broadcast = v4.to_bits() | u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
            request.attribute(libc::IFA_BROADCAST, &broadcast.to_be_bytes());
        }
        request.number(IFA_FLAGS, libc::IFA_F_NODAD);
        self.change(request)
    }

    /// Waits until the namespace receives packets for one of its addresses. Returns false after
    /// `limit`.
    ///
    /// # Errors
    /// The kernel rejects the request.
    pub fn wait_until_local(&mut self, address: IpAddr, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        while !self.is_local(address)? {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// Adds a permanent neighbour entry, the MAC address for an IP address, so that no ARP or
    /// neighbour request is sent for it.
    ///
    /// # Errors
    /// There is no such interface, or the kernel rejects the request.
    pub fn add_neighbour(
        &mut self,
        name: impl AsRef<[u8]>,
        address: IpAddr,
        mac: [u8; 6],
    ) -> Result<()> {
        let index = self.index(name.as_ref())?;
        // struct ndmsg: family, padding, index, state, flags, type.
        let mut body = [0; 12];
        body[0] = family(address);
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body[8..10].copy_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
        let context = format!("{address} on {}", Name::new(name.as_ref()));
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut request = Request::new((libc::RTM_NEWNEIGH, "RTM_NEWNEIGH"), flags, &body, context);
        with_octets(address, |octets| request.attribute(libc::NDA_DST, octets));
        request.attribute(libc::NDA_LLADDR, &mac);
        self.change(request)
    }

    /// Adds a default route through a gateway on the interface's network.
    ///
    /// # Errors
    /// There is no such interface, the gateway cannot be reached, or the kernel rejects the
    /// request.
    pub fn add_default_route(&mut self, name: impl AsRef<[u8]>, gateway: IpAddr) -> Result<()> {
        let index = self.index(name.as_ref())?;
        // struct rtmsg: family, destination and source prefix, TOS, table, protocol, scope, type,
        // 32 bits of flags.
        let mut body = [0; 12];
        body[0] = family(gateway);
        body[4] = libc::RT_TABLE_MAIN;
        body[5] = libc::RTPROT_BOOT;
        body[6] = libc::RT_SCOPE_UNIVERSE;
        body[7] = libc::RTN_UNICAST;
        let context = format!("default via {gateway} on {}", Name::new(name.as_ref()));
        let mut request =
            Request::new((libc::RTM_NEWROUTE, "RTM_NEWROUTE"), CREATE, &body, context);
        with_octets(gateway, |octets| {
            request.attribute(libc::RTA_GATEWAY, octets);
        });
        request.number(libc::RTA_OIF, index);
        self.change(request)
    }

    /// Returns the index of the interface with this name or alternative name.
    ///
    /// # Errors
    /// There is no such interface, or the kernel rejects the request.
    pub fn index(&mut self, name: impl AsRef<[u8]>) -> Result<u32> {
        self.link(name).map(|link| link.index)
    }

    fn modify(&mut self, name: &[u8], fill: impl FnOnce(&mut Request)) -> Result<()> {
        let mut request = self.request(NEW_LINK, libc::NLM_F_ACK, name, (0, 0))?;
        fill(&mut request);
        self.change(request)
    }

    /// Begins a request on the interface with this name, with flags and a mask of flags to change.
    fn request(
        &mut self,
        kind: (u16, &'static str),
        flags: i32,
        name: &[u8],
        (of_link, change): (u32, u32),
    ) -> Result<Request> {
        let body = link_body(self.index(name)?, of_link, change);
        let context = Name::new(name).to_string();
        Ok(Request::new(kind, flags, &body, context))
    }

    /// Returns the entries of a kind in a table of the kernel, those that `keep` selects.
    pub(super) fn table(
        &mut self,
        get: (u16, &'static str),
        body: &[u8],
        entry: u16,
        keep: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Vec<u8>>> {
        let make = || Request::new(get, libc::NLM_F_DUMP, body, "");
        let records = self.socket.dump(make, keep)?.into_iter();
        let entries = records.filter(|record| record.kind == entry);
        Ok(entries.map(|record| record.payload).collect())
    }

    fn change(&mut self, request: Request) -> Result<()> {
        self.socket.execute(request).map(drop)
    }
}

/// Returns a `struct ifinfomsg`: family, padding, device type, index, flags, mask of flags to change.
pub(super) fn link_body(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&flags.to_ne_bytes());
    body[12..16].copy_from_slice(&change.to_ne_bytes());
    body
}

/// Returns a `struct ifaddrmsg`: family, prefix length, flags, scope, index.
fn address_body(address: IpAddr, prefix: u8, index: u32) -> [u8; 8] {
    let mut body = [0; 8];
    body[0] = family(address);
    body[1] = prefix;
    body[3] = if address.is_loopback() {
        libc::RT_SCOPE_HOST
    } else {
        libc::RT_SCOPE_UNIVERSE
    };
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body
}

fn family(address: IpAddr) -> u8 {
    // AF_INET and AF_INET6, as the byte that netlink uses.
    if address.is_ipv4() { 2 } else { 10 }
}

fn with_octets(address: IpAddr, mut take: impl FnMut(&[u8])) {
    match address {
        IpAddr::V4(v4) => take(&v4.octets()),
        IpAddr::V6(v6) => take(&v6.octets()),
    }
}
