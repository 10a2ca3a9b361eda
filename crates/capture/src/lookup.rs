//! Finds an interface by any of its names.

use ringtap_sys::errno::{EINVAL, ENODEV};
use ringtap_sys::netlink::{self, Link, Netlink};

use crate::{Error, Result};

/// The errors for unknown names, and for those that no interface can have.
const NOT_FOUND: [i32; 2] = [ENODEV, EINVAL];

/// Returns the interface with this name, alternative name (Linux 5.5), or name with the suffix of an
/// old-style alias, which is another address of the same interface.
pub(crate) fn find_link(netlink: &mut Netlink, device: &str) -> Result<Option<Link>> {
    match exact(netlink, device)? {
        Some(link) => Ok(Some(link)),
        None => match device.split_once(':') {
            Some((base, _)) => exact(netlink, base),
            None => Ok(None),
        },
    }
}

fn exact(netlink: &mut Netlink, name: &str) -> Result<Option<Link>> {
    match netlink.link(name) {
        Ok(link) => Ok(Some(link)),
        Err(netlink::Error::Name { .. } | netlink::Error::NoLink { .. }) => Ok(None),
        Err(error) if error.errno().is_some_and(|code| NOT_FOUND.contains(&code)) => Ok(None),
        Err(error) => Err(Error::interface(name)(error)),
    }
}
