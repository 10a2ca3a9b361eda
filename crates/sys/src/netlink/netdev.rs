//! The features that drivers offer to XDP programs, from the generic netlink family `netdev` (Linux
//! 6.3).
//!
//! Source: Documentation/netlink/specs/netdev.yaml, genetlink(7).

use super::message::{Attribute, Attributes, Request};
use super::socket::{Record, Socket};
use super::{Netlink, Result};

/// The controller of generic netlink, and its request for a family's ID.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET` and its attributes.
const GET_DEVICE: u8 = 1;
const IFINDEX: u16 = 1;
/// `NETDEV_CMD_NAPI_GET` (6.8) and its attributes; the first one is [`IFINDEX`], too.
const GET_NAPI: u8 = 11;
const THREAD: u16 = 4;
const XDP_FEATURES: u16 = 3;
const RX_METADATA: u16 = 5;
/// `NETDEV_XDP_RX_METADATA_TIMESTAMP` (6.3) and `NETDEV_XDP_RX_METADATA_VLAN_TAG` (6.8).
const RX_TIMESTAMP: u64 = 1 << 0;
const RX_VLAN_TAG: u64 = 1 << 2;
/// `NETDEV_XDP_ACT_NDO_XMIT` and `NETDEV_XDP_ACT_XSK_ZEROCOPY`.
const NDO_XMIT: u64 = 1 << 2;
const ZERO_COPY: u64 = 1 << 3;
/// `struct genlmsghdr`: command, version, reserved.
const BODY_LEN: usize = 4;

/// The features that a driver offers to XDP programs besides running them (6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// The driver sends frames that a program on another interface redirects to it.
    pub takes_redirected: bool,
    /// The adapter and AF_XDP sockets share memory, without copies.
    pub zero_copy: bool,
}

impl Netlink {
    /// Returns whether XDP programs can read the VLAN tag that the driver removed from a packet.
    /// Returns false if the kernel does not report it. Needs no privilege. Applies to the network
    /// namespace of the calling thread.
    ///
    /// # Errors
    /// The socket cannot be created, or the reply is malformed.
    pub fn xdp_knows_vlan_tags(index: u32) -> Result<bool> {
        let bits = device_bits(index, RX_METADATA)?;
        Ok(bits.is_some_and(|bits| bits & RX_VLAN_TAG != 0))
    }

    /// Returns whether XDP programs can read the time when the adapter received a packet. Returns
    /// false if the kernel does not report it. Needs no privilege. Applies to the network namespace
    /// of the calling thread.
    ///
    /// # Errors
    /// The same as [`Netlink::xdp_knows_vlan_tags`].
    pub fn xdp_knows_receive_times(index: u32) -> Result<bool> {
        let bits = device_bits(index, RX_METADATA)?;
        Ok(bits.is_some_and(|bits| bits & RX_TIMESTAMP != 0))
    }

    /// Returns the features that the driver offers to XDP programs in its present configuration;
    /// `None` if the kernel does not report them. Needs no privilege. Applies to the network
    /// namespace of the calling thread.
    ///
    /// # Errors
    /// The same as [`Netlink::xdp_knows_vlan_tags`].
    pub fn xdp_features(index: u32) -> Result<Option<XdpFeatures>> {
        let bits = device_bits(index, XDP_FEATURES)?;
        Ok(bits.map(|bits| XdpFeatures {
            takes_redirected: bits & NDO_XMIT != 0,
            zero_copy: bits & ZERO_COPY != 0,
        }))
    }
}

impl Netlink {
    /// Returns the threads that receive an interface's packets instead of interrupts, by their IDs
    /// in the initial PID namespace. Returns none if interrupts are used, or if the kernel does not
    /// report the threads (before 6.8). Needs no privilege. Applies to the network namespace of the
    /// calling thread.
    ///
    /// # Errors
    /// The same as [`Netlink::xdp_knows_vlan_tags`].
    pub fn receive_threads(index: u32) -> Result<Vec<u32>> {
        let mut socket = Socket::open_for(libc::NETLINK_GENERIC)?;
        let Some(family) = family(&mut socket)? else {
            return Ok(Vec::new());
        };
        let make = || {
            let body = [GET_NAPI, 1, 0, 0];
            let kind = (family, "NETDEV_CMD_NAPI_GET");
            let mut request = Request::new(kind, libc::NLM_F_DUMP, &body, "netdev");
            request.number(IFINDEX, index);
            request
        };
        let Ok(records) = socket.dump(make, |_| true) else {
            return Ok(Vec::new());
        };
        let mut threads = Vec::new();
        each(&records, family, "netdev", THREAD, |attribute| {
            threads.push(attribute.u32("NETDEV_A_NAPI_PID")?);
            Ok(())
        })?;
        Ok(threads)
    }
}

/// Returns a 64-bit attribute of a device; `None` if the kernel has none.
fn device_bits(index: u32, kind: u16) -> Result<Option<u64>> {
    let mut socket = Socket::open_for(libc::NETLINK_GENERIC)?;
    let Some(family) = family(&mut socket)? else {
        return Ok(None);
    };
    let mut request = request((family, "NETDEV_CMD_DEV_GET"), GET_DEVICE);
    request.number(IFINDEX, index);
    let Ok(records) = socket.execute(request) else {
        return Ok(None);
    };
    let mut bits = None;
    each(&records, family, "netdev", kind, |attribute| {
        bits = attribute.value.first_chunk().copied();
        Ok(())
    })?;
    Ok(bits.map(u64::from_ne_bytes))
}

/// Returns the ID of the family; `None` before Linux 6.3.
fn family(socket: &mut Socket) -> Result<Option<u16>> {
    let mut request = request((CONTROLLER, "CTRL_CMD_GETFAMILY"), GET_FAMILY);
    request.string(FAMILY_NAME, b"netdev");
    let records = match socket.execute(request) {
        Err(error) if error.errno() == Some(libc::ENOENT) => return Ok(None),
        records => records?,
    };
    let mut id = None;
    each(&records, CONTROLLER, "family", FAMILY_ID, |attribute| {
        id = Some(attribute.u16("CTRL_ATTR_FAMILY_ID")?);
        Ok(())
    })?;
    Ok(id)
}

/// Reads the attributes of one kind in all answers of a family; `what` names these in errors.
fn each(
    records: &[Record],
    family: u16,
    what: &'static str,
    kind: u16,
    mut read: impl FnMut(Attribute<'_>) -> Result<()>,
) -> Result<()> {
    for record in records.iter().filter(|record| record.kind == family) {
        let attributes = Attributes::after(&record.payload, BODY_LEN, what)?;
        attributes.each(|attribute| match attribute.kind == kind {
            true => read(attribute),
            false => Ok(()),
        })?;
    }
    Ok(())
}

fn request(kind: (u16, &'static str), command: u8) -> Request {
    Request::new(kind, libc::NLM_F_ACK, &[command, 1, 0, 0], "netdev")
}
