//! What drivers offer to XDP programs, asked of the generic netlink family `netdev` (Linux 6.3).
//!
//! Source: Documentation/netlink/specs/netdev.yaml, genetlink(7).

use super::message::{Attributes, Request};
use super::socket::Socket;
use super::{Netlink, Result};

/// The controller of generic netlink and its request for a family's number.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET` and its attributes.
const GET_DEVICE: u8 = 1;
const IFINDEX: u16 = 1;
const RX_METADATA: u16 = 5;
/// `NETDEV_XDP_RX_METADATA_VLAN_TAG` (6.8).
const RX_VLAN_TAG: u8 = 1 << 2;
/// `struct genlmsghdr`: command, version, reserved.
const BODY_LEN: usize = 4;

impl Netlink {
    /// Whether the driver tells XDP programs the VLAN tag that it took out of a packet; false also
    /// where the kernel does not say. Needs no privilege. Speaks for the network namespace of the
    /// calling thread.
    ///
    /// # Errors
    /// The socket cannot be made, or the answer is malformed.
    pub fn xdp_knows_vlan_tags(index: u32) -> Result<bool> {
        let mut socket = Socket::open_for(libc::NETLINK_GENERIC)?;
        let Some(family) = family(&mut socket)? else {
            return Ok(false);
        };
        let mut request = request((family, "NETDEV_CMD_DEV_GET"), GET_DEVICE);
        request.number(IFINDEX, index);
        let Ok(records) = socket.execute(request) else {
            return Ok(false);
        };
        let mut knows = false;
        for record in records.iter().filter(|record| record.kind == family) {
            let attributes = Attributes::after(&record.payload, BODY_LEN, "netdev")?;
            attributes.each(|attribute| {
                if attribute.kind == RX_METADATA {
                    // 64 bits in host order, of which the lowest are in use.
                    let low = if cfg!(target_endian = "little") {
                        attribute.value.first()
                    } else {
                        attribute.value.last()
                    };
                    knows = low.is_some_and(|bits| bits & RX_VLAN_TAG != 0);
                }
                Ok(())
            })?;
        }
        Ok(knows)
    }
}

/// The number of the family; `None` before Linux 6.3.
fn family(socket: &mut Socket) -> Result<Option<u16>> {
    let mut request = request((CONTROLLER, "CTRL_CMD_GETFAMILY"), GET_FAMILY);
    request.string(FAMILY_NAME, b"netdev");
    let records = match socket.execute(request) {
        Err(error) if error.errno() == Some(libc::ENOENT) => return Ok(None),
        records => records?,
    };
    let mut id = None;
    for record in records.iter().filter(|record| record.kind == CONTROLLER) {
        let attributes = Attributes::after(&record.payload, BODY_LEN, "family")?;
        attributes.each(|attribute| {
            if attribute.kind == FAMILY_ID {
                id = Some(attribute.u16("CTRL_ATTR_FAMILY_ID")?);
            }
            Ok(())
        })?;
    }
    Ok(id)
}

fn request(kind: (u16, &'static str), command: u8) -> Request {
    Request::new(kind, libc::NLM_F_ACK, &[command, 1, 0, 0], "netdev")
}
