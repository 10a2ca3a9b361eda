//! The adapter's stamps of received packets, switched on for as long as somebody wants them.
//!
//! What it is: `SIOCSHWTSTAMP` with an owner. What was set before is put back when the last thing to be
//! done is to drop it. What it is not: stamps of sent packets are left as they are, so that a daemon
//! that keeps the adapter's clock (`ptp4l`) goes on undisturbed; and nobody puts anything back for a
//! process that is killed.
//!
//! Source: Documentation/networking/timestamping.rst, section 3.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::{Error, Result};

/// `HWTSTAMP_FILTER_ALL`.
const ALL: libc::c_int = 1;
/// The requests, with the names that errors have.
const SET: Request = (libc::SIOCSHWTSTAMP, "ioctl(SIOCSHWTSTAMP)");
const GET: Request = (libc::SIOCGHWTSTAMP, "ioctl(SIOCGHWTSTAMP)");

type Request = (libc::c_ulong, &'static str);

/// What an adapter stamps: `struct hwtstamp_config`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamped {
    flags: libc::c_int,
    sent: libc::c_int,
    received: libc::c_int,
}

/// The adapter stamps every packet that it receives until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the stamps"]
pub struct ReceiveStamps {
    socket: OwnedFd,
    index: u32,
    device: String,
    change: Option<Change>,
}

/// Who is asked to stamp packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamper {
    /// The adapter.
    #[default]
    Adapter,
    /// Nobody, which succeeds on every device: for tests, with packets that have stamps already.
    StandIn,
}

impl Stamper {
    /// As [`ReceiveStamps::start`].
    ///
    /// # Errors
    /// As there.
    pub fn start(self, device: &str, index: u32) -> Result<ReceiveStamps> {
        match self {
            Self::Adapter => ReceiveStamps::start(device, index),
            Self::StandIn => ReceiveStamps::unchanged(device, index),
        }
    }
}

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    before: Stamped,
    set: Stamped,
}

impl Change {
    /// What to set at the end: nothing where somebody else has set something meanwhile.
    fn undone(&self, now: Stamped) -> Option<Stamped> {
        (now == self.set).then_some(self.before)
    }
}

impl ReceiveStamps {
    /// Has the adapter stamp every packet that it receives. `device` is one of the calling thread's
    /// network namespace, `index` its number there. Needs `CAP_NET_ADMIN`, unless it does so already.
    ///
    /// # Errors
    /// EOPNOTSUPP, EINVAL or ERANGE where it cannot, or not every packet; EPERM.
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
        // A driver that does not tell what was set before is left as it is.
        stamps.change = before.ok().map(|before| Change { before, set });
        if set.received != ALL {
            let source = io::Error::from_raw_os_error(libc::ERANGE);
            return Err(Error::new(SET.1, device, source));
        }
        Ok(stamps)
    }

    fn unchanged(device: &str, index: u32) -> Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointer; the result is checked before use.
        let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
        if fd < 0 {
            return Err(Error::last("socket(AF_UNIX)", device));
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            socket,
            index,
            device: device.to_owned(),
            change: None,
        })
    }

    /// Whether something must be put back at the end, for which `CAP_NET_ADMIN` is needed.
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
        if result < 0 {
            return Err(Error::last(call, &self.device));
        }
        Ok(Stamped {
            flags: config.flags,
            sent: config.tx_type,
            received: config.rx_filter,
        })
    }

    /// What the device is called now; it may have got another name.
    fn name_now(&self) -> Option<String> {
        let mut argument = interface_request();
        argument.ifr_ifru.ifru_ifindex = self.index.cast_signed();
        let request = libc::SIOCGIFNAME;
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
            // Nobody is left who could be told of a failure.
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
