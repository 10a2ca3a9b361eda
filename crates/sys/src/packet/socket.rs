//! The packet socket and its options, each with its name in packet(7) and socket(7).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::layout::{
    AF_PACKET, ETH_P_ALL, MEMBERSHIP_PROMISCUOUS, Membership, RingRequest, RingStatistics, len_of,
    option,
};
use super::{Fanout, Instruction, TimestampSource};
use crate::{Error, Result, calls};

/// `PACKET_FANOUT_FLAG_UNIQUEID` (Linux 4.12): the kernel chooses an unused group number.
const FANOUT_UNIQUE_ID: u16 = 0x2000;
/// `SO_PREFER_BUSY_POLL` (Linux 5.11), which the C library's headers lack.
const SO_PREFER_BUSY_POLL: libc::c_int = 69;

/// A packet socket that receives nothing until it is bound.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    /// The device's name, for error messages.
    device: String,
}

impl Socket {
    /// Opens a socket with protocol 0, which receives nothing before its filter and ring are in
    /// place.
    pub(super) fn open(cooked: bool, device: &str) -> Result<Self> {
        let kind = if cooked {
            libc::SOCK_DGRAM
        } else {
            libc::SOCK_RAW
        };
        Ok(Self {
            fd: calls::socket(libc::AF_PACKET, kind, 0, "socket(AF_PACKET)", device)?,
            device: device.to_owned(),
        })
    }

    /// Sets the ring's version, one of the constants `TPACKET_…`.
    pub(super) fn set_version(&self, version: libc::c_int) -> Result<()> {
        self.set_packet(option::VERSION, &version, "setsockopt(PACKET_VERSION)")
    }

    pub(super) fn set_reserve(&self, bytes: u32) -> Result<()> {
        self.set_packet(option::RESERVE, &bytes, "setsockopt(PACKET_RESERVE)")
    }

    pub(super) fn set_timestamp(&self, source: TimestampSource) -> Result<()> {
        let flags = match source {
            TimestampSource::Host => return Ok(()),
            TimestampSource::Adapter => libc::SOF_TIMESTAMPING_RAW_HARDWARE,
        };
        self.set_packet(option::TIMESTAMP, &flags, "setsockopt(PACKET_TIMESTAMP)")
    }

    /// Excludes packets that the host sends (Linux 4.20); returns false if the kernel does not
    /// support it.
    pub(super) fn ignore_outgoing(&self) -> Result<bool> {
        let result = self.set_packet(
            option::IGNORE_OUTGOING,
            &1,
            "setsockopt(PACKET_IGNORE_OUTGOING)",
        );
        match result {
            Err(error) if error.errno() == Some(libc::ENOPROTOOPT) => Ok(false),
            result => result.map(|()| true),
        }
    }

    pub(super) fn set_busy_poll(&self, duration: Duration) -> Result<()> {
        let micros = libc::c_int::try_from(duration.as_micros()).unwrap_or(libc::c_int::MAX);
        self.set(libc::SO_BUSY_POLL, &micros, "setsockopt(SO_BUSY_POLL)")?;
        match self.set(SO_PREFER_BUSY_POLL, &1, "setsockopt(SO_PREFER_BUSY_POLL)") {
            Err(error) if error.errno() == Some(libc::ENOPROTOOPT) => Ok(()),
            result => result,
        }
    }

    /// Makes the interface promiscuous until the descriptor is closed, also when the process is
    /// killed.
    pub(super) fn join_promiscuous(&self, ifindex: u32) -> Result<()> {
        let membership = Membership {
            ifindex: ifindex.cast_signed(),
            kind: MEMBERSHIP_PROMISCUOUS,
            address_len: 0,
            address: [0; 8],
        };
        self.set_packet(
            option::ADD_MEMBERSHIP,
            &membership,
            "setsockopt(PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC)",
        )
    }

    pub(super) fn attach_filter(&self, program: &[Instruction]) -> Result<()> {
        super::inject::attach(&self.fd, program, &self.device)
    }

    pub(super) fn set_ring(&self, request: &RingRequest) -> Result<()> {
        self.set_packet(option::RX_RING, request, "setsockopt(PACKET_RX_RING)")
    }

    /// Starts receiving from the interface; 0 means all.
    pub(super) fn bind(&self, ifindex: u32) -> Result<()> {
        self.bind_to(&link_address(ifindex))
    }

    pub(super) fn bind_to(&self, address: &libc::sockaddr_ll) -> Result<()> {
        calls::bind(&self.fd, address)
            .map_err(|source| Error::new("bind(AF_PACKET)", &self.device, source))
    }

    /// Returns the interface that the socket is bound to; `None` after the interface was removed.
    pub(super) fn bound_ifindex(&self) -> Result<Option<u32>> {
        // SAFETY: all-zero bytes are a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut len = len_of::<libc::sockaddr_ll>();
        // SAFETY: `address` is writable for `len` bytes; both outlive the call.
        let result = unsafe {
            libc::getsockname(self.fd.as_raw_fd(), (&raw mut address).cast(), &raw mut len)
        };
        Error::check(result, "getsockname(AF_PACKET)", &self.device)?;
        Ok(u32::try_from(address.sll_ifindex).ok())
    }

    /// Joins the fanout group, and returns its number.
    pub(super) fn join_fanout(&self, fanout: &Fanout) -> Result<u16> {
        const CALL: &str = "setsockopt(PACKET_FANOUT)";
        let unique = if fanout.group.is_none() {
            FANOUT_UNIQUE_ID
        } else {
            0
        };
        let kind = fanout.mode.kernel_value() | fanout.flags() | unique;
        let value = u32::from(fanout.group.unwrap_or(0)) | (u32::from(kind) << 16);
        self.set_packet(option::FANOUT, &value, CALL)?;
        let mut joined = 0_u32;
        self.get(
            libc::SOL_PACKET,
            option::FANOUT,
            &mut joined,
            "getsockopt(PACKET_FANOUT)",
        )?;
        let [low, high, ..] = joined.to_le_bytes();
        Ok(u16::from_le_bytes([low, high]))
    }

    /// Returns the counters since the last call, and resets them.
    pub(super) fn take_statistics(&self) -> Result<RingStatistics> {
        let mut statistics = RingStatistics::default();
        let call = "getsockopt(PACKET_STATISTICS)";
        self.get(libc::SOL_PACKET, option::STATISTICS, &mut statistics, call)?;
        Ok(statistics)
    }

    /// Returns the pending error (`SO_ERROR`) and clears it.
    pub(super) fn take_error(&self) -> Result<Option<i32>> {
        let mut error: libc::c_int = 0;
        self.get(
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            &mut error,
            "getsockopt(SO_ERROR)",
        )?;
        Ok((error != 0).then_some(error))
    }

    pub(super) fn device(&self) -> &str {
        &self.device
    }

    pub(super) fn set_packet<T>(
        &self,
        name: libc::c_int,
        value: &T,
        call: &'static str,
    ) -> Result<()> {
        calls::set_option(&self.fd, libc::SOL_PACKET, name, value)
            .map_err(|source| Error::new(call, &self.device, source))
    }

    /// Sets an option that sockets of all kinds have.
    pub(super) fn set<T>(&self, name: libc::c_int, value: &T, call: &'static str) -> Result<()> {
        calls::set_option(&self.fd, libc::SOL_SOCKET, name, value)
            .map_err(|source| Error::new(call, &self.device, source))
    }

    fn get<T: Copy>(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: &mut T,
        call: &'static str,
    ) -> Result<()> {
        calls::get_option(&self.fd, level, name, value)
            .map_err(|source| Error::new(call, &self.device, source))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the address of all packets that an interface receives; 0 means all interfaces.
pub(super) fn link_address(ifindex: u32) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: AF_PACKET,
        sll_protocol: ETH_P_ALL.to_be(),
        sll_ifindex: ifindex.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}
