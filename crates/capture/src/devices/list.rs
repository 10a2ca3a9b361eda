//! Builds the list of devices from netlink and ethtool.

use std::collections::HashMap;

use ringtap_packet::LinkType;
use ringtap_sys::errno::ENODEV;
use ringtap_sys::ethtool::{Ethtool, Timestamping};
use ringtap_sys::netlink::{Link, Name, Netlink, OperationalState};

use super::{ANY, DeviceError, DeviceInfo, Flags, Relation};
use crate::lookup::find_link;
use crate::{Error, engines, hook};

/// Returns all devices of the calling thread's network namespace by number, with the pseudo-device `any`
/// last.
///
/// # Errors
/// The interfaces cannot be read.
pub fn list() -> Result<Vec<DeviceInfo>, DeviceError> {
    let mut netlink = Netlink::open()?;
    let links = netlink.links()?;
    let names: HashMap<u32, Name> = links
        .iter()
        .map(|link| (link.index, link.name.clone()))
        .collect();
    let wide_routes = netlink.wide_routes()?;
    let hazards = |link: &Link| hook::hazards(&links, &wide_routes, link.index);
    let mut hazards: Vec<_> = links.iter().map(hazards).collect();
    let mut devices: Vec<_> = links
        .into_iter()
        .zip(&mut hazards)
        .map(|(link, hazards)| DeviceInfo {
            steal_hazards: std::mem::take(hazards),
            ..describe(link, &names)
        })
        .collect();
    for address in netlink.addresses()? {
        if let Some(device) = devices
            .iter_mut()
            .find(|device| device.index == address.index)
        {
            device.addresses.push(address);
        }
    }
    for route in netlink.default_routes()? {
        if let Some(device) = devices
            .iter_mut()
            .find(|device| device.index == route.index)
        {
            device.default_routes.push(route);
        }
    }
    let mut ethtool = Ethtool::open()?;
    for device in &mut devices {
        ask_driver(device, &mut ethtool);
    }
    devices.push(any());
    Ok(devices)
}

/// Returns the device with this name, alternative name or number.
///
/// # Errors
/// There is none, or the interfaces cannot be read.
pub fn by_name(name: impl AsRef<[u8]>) -> Result<DeviceInfo, DeviceError> {
    let name = name.as_ref();
    let mut devices = list()?;
    match position(&devices, name) {
        Some(at) => Ok(devices.swap_remove(at)),
        None => Err(DeviceError::NoSuchDevice {
            name: Name::new(name),
        }),
    }
}

/// Returns the hardware timestamping of the interface with this name, and its clock. `None` if there is none.
/// Only this interface is queried.
///
/// # Errors
/// The interfaces cannot be read, or the driver fails.
pub fn timestamping(name: &str) -> crate::Result<Option<Timestamping>> {
    match find(name)? {
        Some(link) => Ok(Ethtool::open()?.timestamping(&link.name)?),
        None => Ok(None),
    }
}

fn find(name: &str) -> crate::Result<Option<Link>> {
    let mut netlink = Netlink::open().map_err(Error::interface(name))?;
    find_link(&mut netlink, name)
}

/// Returns the position of the device with this name, alternative name or number in a list.
#[must_use]
pub fn position(devices: &[DeviceInfo], name: impl AsRef<[u8]>) -> Option<usize> {
    let name = name.as_ref();
    // A name wins over a number, as an interface may be called "2".
    let by_own_name = devices
        .iter()
        .position(|device| device.name.as_bytes() == name);
    by_own_name.or_else(|| devices.iter().position(|device| device.is_called(name)))
}

/// Returns the default device of a capture: the first that is up and carries frames; loopback only if there
/// is no other. `None` if none is up.
///
/// # Errors
/// The interfaces cannot be read.
pub fn default_device() -> Result<Option<Name>, DeviceError> {
    let mut links = Netlink::open()?.links()?;
    links.retain(|link| Flags(link.flags).is_up());
    // The smallest value wins: with carrier before without, real before loopback, then by number.
    let order = |link: &&Link| {
        let flags = Flags(link.flags);
        (flags.is_loopback(), !flags.is_running(), link.index)
    };
    Ok(links.iter().min_by_key(order).map(|link| link.name.clone()))
}

fn describe(link: Link, names: &HashMap<u32, Name>) -> DeviceInfo {
    let relation = |index: u32, namespace: Option<i32>| Relation {
        index,
        name: names.get(&index).filter(|_| namespace.is_none()).cloned(),
        namespace,
    };
    DeviceInfo {
        parent: link
            .parent
            .map(|parent| relation(parent, link.parent_namespace)),
        master: link.master.map(|master| relation(master, None)),
        link_type: engines::link_type(link.hardware_type),
        name: link.name,
        index: link.index,
        altnames: link.altnames,
        alias: link.alias,
        kind: link.kind,
        hardware_type: link.hardware_type,
        flags: Flags(link.flags),
        state: link.state,
        carrier: link.carrier,
        mac: link.address,
        permanent_mac: link.permanent_address,
        mac_broadcast: link.broadcast,
        mtu: link.mtu,
        vlan: link.vlan,
        promiscuity: link.promiscuity,
        rx_queues: link.rx_queues,
        tx_queues: link.tx_queues,
        scheduler: link.scheduler,
        gso_max_size: link.gso_max_size,
        gro_max_size: link.gro_max_size,
        xdp: link.xdp,
        counters: Some(link.counters),
        ..any()
    }
}

/// Adds the driver's data.
fn ask_driver(device: &mut DeviceInfo, ethtool: &mut Ethtool) {
    let name = device.name.clone();
    let unread = &mut device.unread;
    device.driver = answer(ethtool.driver(&name), unread);
    device.channels = answer(ethtool.channels(&name), unread);
    device.rings = answer(ethtool.rings(&name), unread);
    device.link_mode = answer(ethtool.link_mode(&name), unread);
    device.features = answer(ethtool.features(&name), unread);
    device.timestamping = answer(ethtool.timestamping(&name), unread);
    device.statistics = answer(ethtool.statistics(&name), unread);
}

fn answer<T: Default>(answer: ringtap_sys::Result<T>, unread: &mut Vec<ringtap_sys::Error>) -> T {
    answer.unwrap_or_else(|error| {
        // A device that was removed in the meantime has no data; that is not an error.
        if error.errno() != Some(ENODEV) {
            unread.push(error);
        }
        T::default()
    })
}

/// Returns the pseudo-device: all interfaces, in cooked form.
fn any() -> DeviceInfo {
    DeviceInfo {
        name: Name::new(ANY.as_bytes()),
        index: 0,
        altnames: Vec::new(),
        alias: None,
        kind: None,
        hardware_type: 0,
        link_type: LinkType::LINUX_SLL2,
        flags: Flags::default(),
        state: OperationalState::Unknown,
        carrier: None,
        mac: Vec::new(),
        permanent_mac: None,
        mac_broadcast: Vec::new(),
        addresses: Vec::new(),
        default_routes: Vec::new(),
        mtu: 0,
        parent: None,
        master: None,
        vlan: None,
        promiscuity: 0,
        rx_queues: None,
        tx_queues: None,
        channels: None,
        rings: None,
        scheduler: None,
        gso_max_size: None,
        gro_max_size: None,
        driver: None,
        link_mode: None,
        features: Vec::new(),
        timestamping: None,
        xdp: Vec::new(),
        counters: None,
        statistics: Vec::new(),
        steal_hazards: Vec::new(),
        unread: Vec::new(),
    }
}
