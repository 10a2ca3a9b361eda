//! Timestamps of received packets by the adapter, switched on while a value of this module lives.
//!
//! This is `SIOCSHWTSTAMP` with an owner: dropping the last [`ReceiveStamps`] restores the earlier
//! setting. Stamps of sent packets are not changed, so a daemon that sets the adapter's clock
//! (`ptp4l`) is not disturbed. If the process is killed, the setting is not restored.
//!
//! Source: Documentation/networking/timestamping.rst, section 3.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::{Error, Result, calls};

/// `HWTSTAMP_FILTER_ALL`.
const ALL: libc::c_int = 1;
/// The requests, with their names for error messages.
const SET: Request = (libc::SIOCSHWTSTAMP as _, "ioctl(SIOCSHWTSTAMP)");
const GET: Request = (libc::SIOCGHWTSTAMP as _, "ioctl(SIOCGHWTSTAMP)");

type Request = (libc::Ioctl, &'static str);

/// The packets that an adapter stamps: `struct hwtstamp_config`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamped {
    flags: libc::c_int,
    sent: libc::c_int,
    received: libc::c_int,
}

/// Makes the adapter stamp every packet that it receives, until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the stamps"]
pub struct ReceiveStamps {
    socket: OwnedFd,
    index: u32,
    device: String,
    change: Option<Change>,
}

/// The device that stamps packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamper {
    /// The adapter.
    #[default]
    Adapter,
    /// No device: succeeds on every interface. For tests with packets that are stamped already.
    StandIn,
}

impl Stamper {
    /// Starts stamping, as [`ReceiveStamps::start`].
    ///
    /// # Errors
    /// The same as [`ReceiveStamps::start`].
    pub fn start(self, device: &str, index: u32) -> Result<ReceiveStamps> {
        match self {
            Self::Adapter => ReceiveStamps::start(device, index),
            Self::StandIn => ReceiveStamps::unchanged(device, index),
        }
    }
}

/// A change of the adapter's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    before: Stamped,
    set: Stamped,
}

impl Change {
    /// Returns the setting to restore, or `None` if another process has changed it since.
    fn undone(&self, now: Stamped) -> Option<Stamped> {
        (now == self.set).then_some(self.before)
    }
}

impl ReceiveStamps {
    /// Makes the adapter stamp every packet that it receives. `device` is an interface of the
    /// calling thread's network namespace, `index` its number there. Needs `CAP_NET_ADMIN`, unless
    /// the adapter stamps all packets already.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `EINVAL` or `ERANGE` if the adapter cannot stamp packets, or not all of them;
    /// `EPERM` if the privilege is missing.
    pub fn start(device: &str, index: u32) -> Result<Self> {
        let mut stamps = Self::unchanged(device, index)?;
        let before = stamps.ask(GET, Stamped::default());
        if before.as_ref().is_ok_and(|before| before.received == ALL) {
            return Ok(stamps);
        }
        let wanted = Stamped {
            received: ALL,
            ..before.as_ref().copied().unwrap_or_default()
        };
        let set = stamps.ask(SET, wanted)?;
        // If the driver does not report the earlier setting, it is not restored.
        stamps.change = before.ok().map(|before| Change { before, set });
        if set.received != ALL {
            let source = io::Error::from_raw_os_error(libc::ERANGE);
            return Err(Error::new(SET.1, device, source));
        }
        Ok(stamps)
    }

    fn unchanged(device: &str, index: u32) -> Result<Self> {
        let (kind, call) = (libc::SOCK_DGRAM, "socket(AF_UNIX)");
        Ok(Self {
            socket: calls::socket(libc::AF_UNIX, kind, 0, call, device)?,
            index,
            device: device.to_owned(),
            change: None,
        })
    }

    /// Returns whether the setting must be restored at the end, which needs `CAP_NET_ADMIN`.
    #[must_use]
    pub fn must_undo(&self) -> bool {
        self.change.is_some()
    }

    fn ask(&self, (request, call): Request, stamped: Stamped) -> Result<Stamped> {
        let mut config = libc::hwtstamp_config {
            flags: stamped.flags,
            tx_type: stamped.sent,
            rx_filter: stamped.received,
        };
        let mut argument = interface_request();
        let room = argument.ifr_name.len() - 1;
        let name = argument.ifr_name[..room].iter_mut();
        for (to, &from) in name.zip(self.device.as_bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        argument.ifr_ifru.ifru_data = (&raw mut config).cast();
        // SAFETY: the request and the `config` that it points to are valid for reading and writing, and
        // outlive the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &raw mut argument) };
        Error::check(result, call, &self.device)?;
        Ok(Stamped {
            flags: config.flags,
            sent: config.tx_type,
            received: config.rx_filter,
        })
    }

    /// Returns the device's present name, which may have changed.
    fn name_now(&self) -> Option<String> {
        let mut argument = interface_request();
        argument.ifr_ifru.ifru_ifindex = self.index.cast_signed();
        let request = libc::SIOCGIFNAME as _;
        // SAFETY: the request is valid for reading and writing, and outlives the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &raw mut argument) };
        let bytes: Vec<u8> = argument
            .ifr_name
            .iter()
            .flat_map(|character| character.to_ne_bytes())
            .collect();
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let name = String::from_utf8(bytes.get(..end)?.to_vec());
        name.ok().filter(|_| result == 0)
    }
}

impl Drop for ReceiveStamps {
    fn drop(&mut self) {
        let Some(change) = self.change.take() else {
            return;
        };
        let Some(name) = self.name_now() else {
            return;
        };
        self.device = name;
        let now = self.ask(GET, Stamped::default());
        if let Some(before) = now.ok().and_then(|now| change.undone(now)) {
            // `drop` cannot report a failure.
            let _ = self.ask(SET, before);
        }
    }
}

fn interface_request() -> libc::ifreq {
    // SAFETY: all-zero bytes are a valid `ifreq`.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_before_is_put_back_unless_somebody_set_something_else() {
        let stamped = |received| Stamped {
            flags: 0,
            sent: 1,
            received,
        };
        let change = Change {
            before: stamped(0),
            set: stamped(ALL),
        };
        assert_eq!(change.undone(stamped(ALL)), Some(stamped(0)));
        assert_eq!(change.undone(stamped(12)), None);
    }
}
