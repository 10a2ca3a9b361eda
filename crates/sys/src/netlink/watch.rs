//! Notices when interfaces are added, removed or changed.

use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::Result;
use crate::Error;

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
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if fd < 0 {
            return Err(Error::last("socket(AF_NETLINK)", "").into());
        }
        // SAFETY: the call has just returned this fd, so nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: sockaddr_nl holds integers only, for which zero is valid.
        let mut address: libc::sockaddr_nl = unsafe { zeroed() };
        address.nl_family = libc::sa_family_t::try_from(libc::AF_NETLINK).unwrap_or_default();
        // Groups are bits here. Only a bound socket receives broadcasts.
        address.nl_groups = 1 << (libc::RTNLGRP_LINK - 1);
        let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
        // SAFETY: pointer and length describe `address`, which outlives the call.
        let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
        if result < 0 {
            return Err(Error::last("bind(AF_NETLINK)", "RTNLGRP_LINK").into());
        }
        Ok(Self { fd })
    }

    /// Also reports interfaces of the other network namespaces that this one has a number for (`ip netns list-id`),
    /// such as those at the other ends of its virtual cables. Needs `CAP_NET_BROADCAST` and Linux 4.2.
    ///
    /// # Errors
    /// The kernel does not support it.
    pub fn include_linked_namespaces(&self) -> Result<()> {
        let on: libc::c_int = 1;
        let length = libc::socklen_t::try_from(size_of_val(&on)).unwrap_or_default();
        // SAFETY: pointer and length describe `on`, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_NETLINK,
                libc::NETLINK_LISTEN_ALL_NSID,
                (&raw const on).cast(),
                length,
            )
        };
        if result < 0 {
            return Err(Error::last("setsockopt", "NETLINK_LISTEN_ALL_NSID").into());
        }
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
