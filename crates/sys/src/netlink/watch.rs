//! Notices when interfaces are added, removed or changed.

use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::Result;
use crate::{Error, calls};

/// Enough bytes of a message to notice it.
const HEAD: usize = 64;

/// A descriptor that becomes readable when an interface of the network namespace is added, removed
/// or changed (`RTNLGRP_LINK`). To find which one, list the interfaces. Needs no privilege.
#[derive(Debug)]
pub struct LinkWatch {
    fd: OwnedFd,
}

impl LinkWatch {
    /// Starts watching the network namespace of the calling thread.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn open() -> Result<Self> {
        let (kind, protocol) = (libc::SOCK_RAW | libc::SOCK_NONBLOCK, libc::NETLINK_ROUTE);
        let fd = calls::socket(libc::AF_NETLINK, kind, protocol, "socket(AF_NETLINK)", "")?;
        // SAFETY: sockaddr_nl holds integers only, for which zero is valid.
        let mut address: libc::sockaddr_nl = unsafe { zeroed() };
        address.nl_family = libc::sa_family_t::try_from(libc::AF_NETLINK).unwrap_or_default();
        // Groups are bits here. Only a bound socket receives broadcasts.
        address.nl_groups = 1 << (libc::RTNLGRP_LINK - 1);
        calls::bind(&fd, &address)
            .map_err(|source| Error::new("bind(AF_NETLINK)", "RTNLGRP_LINK", source))?;
        Ok(Self { fd })
    }

    /// Also reports interfaces of the other network namespaces that this one has a number for (`ip netns list-id`),
    /// such as those at the other ends of its virtual cables. Needs `CAP_NET_BROADCAST` and Linux 4.2.
    ///
    /// # Errors
    /// The kernel does not support it.
    pub fn include_linked_namespaces(&self) -> Result<()> {
        let (level, name) = (libc::SOL_NETLINK, libc::NETLINK_LISTEN_ALL_NSID);
        calls::set_option(&self.fd, level, name, &1_i32)
            .map_err(|source| Error::new("setsockopt", "NETLINK_LISTEN_ALL_NSID", source))?;
        Ok(())
    }

    /// Returns whether anything has changed since the last call. Never waits.
    #[must_use]
    pub fn take(&self) -> bool {
        let mut changed = false;
        loop {
            let mut head = [0_u8; HEAD];
            // SAFETY: `head` is writable for its length; the descriptor does not block.
            let read =
                unsafe { libc::recv(self.fd.as_raw_fd(), head.as_mut_ptr().cast(), head.len(), 0) };
            if read > 0 {
                changed = true;
                continue;
            }
            match Error::last("recv(AF_NETLINK)", "").errno() {
                Some(libc::EINTR) => {}
                // Messages were lost: something has changed.
                Some(libc::ENOBUFS) => changed = true,
                _ => return changed,
            }
        }
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
