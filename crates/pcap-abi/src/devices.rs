//! Devices: `pcap_findalldevs`, `pcap_lookupdev`, `pcap_lookupnet`.

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::net::IpAddr;
use std::ptr;

use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{Address, Error, Link, Netlink};

use crate::boundary::export;
use crate::text::{CText, ErrBuf, duplicate, in_buffer, say, told};
use crate::types::{PcapAddr, PcapIf, code};
use crate::{memory, status};

/// `IFF_*` of netdevice(7).
const UP: u32 = 1;
const BROADCAST: u32 = 1 << 1;
const LOOPBACK: u32 = 1 << 3;
const POINT_TO_POINT: u32 = 1 << 4;
const RUNNING: u32 = 1 << 6;

/// `PCAP_IF_*`.
const IF_LOOPBACK: u32 = 1;
const IF_UP: u32 = 2;
const IF_RUNNING: u32 = 4;
const IF_WIRELESS: u32 = 8;
const CONNECTED: u32 = 0x10;
const DISCONNECTED: u32 = 0x20;
const NOT_APPLICABLE: u32 = 0x30;

/// `ARPHRD_IEEE80211` to `ARPHRD_IEEE80211_RADIOTAP` (linux/if_arp.h).
const WIRELESS: std::ops::RangeInclusive<u16> = 801..=803;
/// `RT_SCOPE_LINK`.
const SCOPE_LINK: u8 = 253;

const ANY: &str = "any";
const ANY_DESCRIPTION: &str = "Pseudo-device that captures on all interfaces";

/// A device in the list for C.
pub(crate) struct Device {
    pub(crate) name: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    flags: u32,
    addresses: Vec<Addresses>,
}

/// An address with its netmask, broadcast address and peer.
struct Addresses {
    address: Socket,
    netmask: Option<Socket>,
    broadcast: Option<Socket>,
    peer: Option<Socket>,
}

/// A socket's address.
#[derive(Clone, Copy)]
enum Socket {
    Ip(IpAddr, u32),
    Hardware(libc::sockaddr_ll),
}

impl Device {
    /// Creates a device that has only a name and a description.
    pub(crate) fn plain(name: Vec<u8>, description: Vec<u8>) -> Self {
        Self {
            name,
            description: Some(description),
            flags: 0,
            addresses: Vec::new(),
        }
    }
}

/// Returns all devices, in the order of the list.
pub(crate) fn all() -> Result<Vec<Device>, String> {
    let mut netlink = Netlink::open().map_err(|error| message(&error))?;
    let links = netlink.links().map_err(|error| message(&error))?;
    let addresses = netlink.addresses().map_err(|error| message(&error))?;
    let mut ethtool = Ethtool::open().ok();
    let mut devices: Vec<Device> = links
        .iter()
        .map(|link| describe(link, &addresses, ethtool.as_mut()))
        .collect();
    devices.push(Device {
        name: ANY.into(),
        description: Some(ANY_DESCRIPTION.into()),
        flags: IF_UP | IF_RUNNING | NOT_APPLICABLE,
        addresses: Vec::new(),
    });
    devices.sort_by_key(rank);
    Ok(devices)
}

/// Returns the place of a device in the list. The most useful ones come first: running devices,
/// then `any`, loopback, devices without a link, devices that are down.
fn rank(device: &Device) -> u32 {
    let mut rank = 0;
    let mut add = |applies: bool, weight: u32| rank |= if applies { weight } else { 0 };
    add(device.flags & IF_RUNNING == 0, 1 << 31);
    add(device.flags & IF_UP == 0, 1 << 30);
    let wired = device.flags & IF_WIRELESS == 0;
    add(
        wired && device.flags & NOT_APPLICABLE == DISCONNECTED,
        1 << 29,
    );
    add(device.flags & IF_LOOPBACK != 0, 1 << 28);
    add(device.name == ANY.as_bytes(), 1 << 27);
    rank
}

fn describe(link: &Link, addresses: &[Address], ethtool: Option<&mut Ethtool>) -> Device {
    let own = addresses
        .iter()
        .filter(|address| address.index == link.index);
    let mut all = vec![hardware(link)];
    all.extend(own.map(|address| ip(link, address)));
    Device {
        name: link.name.as_bytes().to_vec(),
        description: link.alias.as_ref().map(|alias| alias.as_bytes().to_vec()),
        flags: flags(link, ethtool),
        addresses: all,
    }
}

fn flags(link: &Link, ethtool: Option<&mut Ethtool>) -> u32 {
    let mut flags = 0;
    for (bit, told) in [(LOOPBACK, IF_LOOPBACK), (UP, IF_UP), (RUNNING, IF_RUNNING)] {
        flags |= if link.flags & bit != 0 { told } else { 0 };
    }
    if WIRELESS.contains(&link.hardware_type) {
        flags |= IF_WIRELESS;
    }
    if link.flags & LOOPBACK != 0 {
        return flags | NOT_APPLICABLE;
    }
    let connection = ethtool.and_then(|ethtool| ethtool.link(&link.name).ok().flatten());
    flags
        | match connection {
            Some(true) => CONNECTED,
            Some(false) => DISCONNECTED,
            None => NOT_APPLICABLE,
        }
}

fn hardware(link: &Link) -> Addresses {
    let socket = |address: &[u8]| {
        let mut bytes = [0; 8];
        let len = address.len().min(bytes.len());
        bytes[..len].copy_from_slice(&address[..len]);
        Socket::Hardware(libc::sockaddr_ll {
            sll_family: family(libc::AF_PACKET),
            sll_protocol: 0,
            sll_ifindex: link.index.cast_signed(),
            sll_hatype: link.hardware_type,
            sll_pkttype: 0,
            sll_halen: u8::try_from(len).unwrap_or(0),
            sll_addr: bytes,
        })
    };
    let broadcasts = link.flags & BROADCAST != 0;
    Addresses {
        address: socket(&link.address),
        netmask: None,
        broadcast: broadcasts.then(|| socket(&link.broadcast)),
        peer: None,
    }
}

fn ip(link: &Link, address: &Address) -> Addresses {
    let scope = if address.scope == SCOPE_LINK {
        link.index
    } else {
        0
    };
    // The interface's flags decide whether broadcast or peer is reported, whichever the address
    // has.
    let other = address.peer.or(address.broadcast);
    let is_v4 = address.address.is_ipv4();
    let broadcast = address.broadcast.or(address.peer).or(Some(address.address));
    let told = |bit: u32, what: Option<IpAddr>| {
        what.filter(|_| link.flags & bit != 0 && is_v4)
            .map(|what| Socket::Ip(what, 0))
    };
    Addresses {
        address: Socket::Ip(address.address, scope),
        netmask: Some(Socket::Ip(address.netmask(), 0)),
        broadcast: told(BROADCAST, broadcast),
        peer: told(POINT_TO_POINT, other.or(Some(address.address))),
    }
}

fn family(family: c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).unwrap_or(0)
}

impl Socket {
    /// Returns a copy in memory of `malloc`; null if there is none.
    fn allocate(self) -> *mut libc::sockaddr {
        let address = match self {
            Self::Ip(IpAddr::V4(address), _) => memory::array(&[libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: 0,
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.octets()),
                },
                sin_zero: [0; 8],
            }])
            .map(<*mut libc::sockaddr_in>::cast),
            Self::Ip(IpAddr::V6(address), scope) => memory::array(&[libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: address.octets(),
                },
                sin6_scope_id: scope,
            }])
            .map(<*mut libc::sockaddr_in6>::cast),
            Self::Hardware(address) => {
                memory::array(&[address]).map(<*mut libc::sockaddr_ll>::cast)
            }
        };
        address.unwrap_or(ptr::null_mut())
    }
}

fn allocate(socket: Option<Socket>) -> *mut libc::sockaddr {
    socket.map_or(ptr::null_mut(), Socket::allocate)
}

/// Converts the devices to a C list; devices for which there is no memory are left out.
fn list(devices: Vec<Device>) -> *mut PcapIf {
    let mut next = ptr::null_mut();
    for device in devices.into_iter().rev() {
        let mut addresses = ptr::null_mut();
        for each in device.addresses.into_iter().rev() {
            let entry = PcapAddr {
                next: addresses,
                addr: each.address.allocate(),
                netmask: allocate(each.netmask),
                broadaddr: allocate(each.broadcast),
                dstaddr: allocate(each.peer),
            };
            addresses = memory::array(&[entry]).unwrap_or(addresses);
        }
        let entry = PcapIf {
            next,
            name: duplicate(&device.name),
            description: device
                .description
                .map_or(ptr::null_mut(), |text| duplicate(&text)),
            addresses,
            flags: device.flags,
        };
        next = memory::array(&[entry]).unwrap_or(next);
    }
    next
}

/// Frees a C list.
///
/// # Safety
///
/// The list was made by [`list`] and is not used any more.
unsafe fn free_list(mut device: *mut PcapIf) {
    while !device.is_null() {
        // SAFETY: by the caller's promise; each part was allocated by `malloc`, or is null.
        unsafe {
            let mut address = (*device).addresses;
            while !address.is_null() {
                let next = (*address).next;
                for part in [
                    (*address).addr,
                    (*address).netmask,
                    (*address).broadaddr,
                    (*address).dstaddr,
                ] {
                    libc::free(part.cast());
                }
                libc::free(address.cast());
                address = next;
            }
            let next = (*device).next;
            libc::free((*device).name.cast());
            libc::free((*device).description.cast());
            libc::free(device.cast());
            device = next;
        }
    }
}

/// Gives C the list of devices that `find` returns; without a place for it, finds none.
pub(crate) fn hand_out(
    find: impl FnOnce() -> Result<Vec<Device>, String>,
    devices: Option<&mut *mut PcapIf>,
    errbuf: ErrBuf<'_>,
) -> c_int {
    let Some(devices) = devices else {
        return code::ERROR;
    };
    let found = told(find(), errbuf);
    let code = if found.is_some() { 0 } else { code::ERROR };
    *devices = found.map_or(ptr::null_mut(), list);
    code
}

/// Returns the message for a failed listing of devices.
fn message(error: &Error) -> String {
    match error.errno() {
        Some(errno) => format!("netlink: {}", status::os_text(errno)),
        None => error.to_string(),
    }
}

thread_local! {
    static NAME: RefCell<[u8; 64]> = const { RefCell::new([0; 64]) };
}

/// Returns the name of the list's first device, unless that is loopback.
fn first() -> Result<Vec<u8>, String> {
    // As in libpcap, the first of the list, of any kind, unless it is loopback.
    let first = all()?.into_iter().next();
    first
        .filter(|first| first.flags & IF_LOOPBACK == 0)
        .map(|device| device.name)
        .ok_or_else(|| "no suitable device found".to_owned())
}

/// Returns network and mask of a device's first IPv4 address, in network byte order.
fn network(device: &[u8]) -> Result<(u32, u32), String> {
    let name = String::from_utf8_lossy(device);
    let plain = crate::state::live::plain_name(&name);
    // `any` has no network.
    if plain == ANY {
        return Ok((0, 0));
    }
    let mut netlink = Netlink::open().map_err(|error| message(&error))?;
    let links = netlink.links().map_err(|error| message(&error))?;
    let Some(link) = links
        .iter()
        .find(|link| link.name.as_bytes() == plain.as_bytes())
    else {
        return Err(format!(
            "SIOCGIFADDR: {name}: {}",
            status::os_text(libc::ENODEV)
        ));
    };
    let addresses = netlink.addresses().map_err(|error| message(&error))?;
    let found = addresses
        .iter()
        .find_map(|address| match (address.address, address.netmask()) {
            (IpAddr::V4(own), IpAddr::V4(mask)) if address.index == link.index => Some((own, mask)),
            _ => None,
        });
    let Some((own, mask)) = found else {
        return Err(format!("{name}: no IPv4 address assigned"));
    };
    let number = |address: std::net::Ipv4Addr| u32::from_ne_bytes(address.octets());
    Ok((number(own) & number(mask), number(mask)))
}

export! {
    /// Lists all devices; `pcap_freealldevs` frees the list.
    fn pcap_findalldevs(devices: Option<&mut *mut PcapIf>, errbuf: ErrBuf<'_>) -> c_int {
        hand_out(all, devices, errbuf)
    } else code::ERROR;

    /// Frees a list of `pcap_findalldevs`.
    fn pcap_freealldevs(devices: *mut PcapIf) {
        // SAFETY: C's contract: the list is not used any more.
        unsafe { free_list(devices) };
    } else ();

    /// Returns the name of a device to capture on, in memory that the thread's next call
    /// overwrites.
    fn pcap_lookupdev(errbuf: ErrBuf<'_>) -> *mut c_char {
        if status::is_initialised() {
            say(errbuf, "pcap_lookupdev() is deprecated and is not supported in programs calling pcap_init()");
            return ptr::null_mut();
        }
        told(first(), errbuf).map_or(ptr::null_mut(), |name| {
            in_buffer(&NAME, String::from_utf8_lossy(&name))
        })
    } else ptr::null_mut();

    /// Returns a device's network and mask.
    fn pcap_lookupnet(
        device: CText<'_>, net: Option<&mut u32>, mask: Option<&mut u32>, errbuf: ErrBuf<'_>,
    ) -> c_int {
        let (Some(net), Some(mask)) = (net, mask) else { return code::ERROR };
        (*net, *mask) = (0, 0);
        let found = network(device.get().unwrap_or(c"any").to_bytes());
        let Some(found) = told(found, errbuf) else { return code::ERROR };
        (*net, *mask) = found;
        0
    } else code::ERROR;
}
