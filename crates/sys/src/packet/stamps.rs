//! The times when sent frames left. The kernel or the adapter takes these stamps, and they are read
//! from the socket's error queue (Documentation/networking/timestamping.rst, sections 1.3.2 to
//! 2.1).

use std::os::fd::{AsFd, AsRawFd};

use super::layout::len_of;
use super::send::Sender;
use super::socket::Socket;
use crate::{Error, Result};

/// The clock that stamps sent frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendStamps {
    /// The host's wall clock, read by the driver just before it passes a frame to the adapter.
    Software,
    /// The adapter's clock, read when the frame leaves.
    Adapter,
}

/// The timestamp of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendStamp {
    /// The frame's number, modulo 2^32: frames sent by the socket are counted from 0 since
    /// [`Sender::stamp`].
    pub number: u32,
    /// Nanoseconds since the epoch of the clock.
    pub nanos: u64,
}

/// `SOF_TIMESTAMPING_…` (linux/net_tstamp.h).
mod flag {
    pub(super) const TX_HARDWARE: u32 = 1;
    pub(super) const TX_SOFTWARE: u32 = 1 << 1;
    pub(super) const SOFTWARE: u32 = 1 << 4;
    pub(super) const RAW_HARDWARE: u32 = 1 << 6;
    pub(super) const OPT_ID: u32 = 1 << 7;
    pub(super) const OPT_TSONLY: u32 = 1 << 11;
}

/// `PACKET_TX_TIMESTAMP` (linux/if_packet.h): the message of `struct sock_extended_err`.
const TX_TIMESTAMP: libc::c_int = 16;
/// The size of the control messages of one stamp: `struct scm_timestamping` has 48 bytes, the error
/// with its address some 40.
const CONTROL: usize = 256;
/// Offsets of the software's and the adapter's time in `struct scm_timestamping`.
const TIMES: [usize; 2] = [0, 32];
/// Offset of `ee_data` in `struct sock_extended_err`.
const NUMBER_AT: usize = 12;

/// Memory for control messages, aligned as they are.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl Sender {
    /// Makes the kernel stamp frames from now on. For the adapter's clock, the adapter must be
    /// configured first (`SIOCSHWTSTAMP`, as `ptp4l` or `hwstamp_ctl` do).
    ///
    /// # Errors
    /// The kernel does not support it (before 4.0).
    pub fn stamp(&mut self, stamps: SendStamps) -> Result<()> {
        let which = match stamps {
            SendStamps::Software => flag::TX_SOFTWARE | flag::SOFTWARE,
            SendStamps::Adapter => flag::TX_HARDWARE | flag::RAW_HARDWARE,
        };
        let flags = which | flag::OPT_ID | flag::OPT_TSONLY;
        let call = "setsockopt(SO_TIMESTAMPING)";
        self.socket().set(libc::SO_TIMESTAMPING, &flags, call)
    }

    /// Returns a stamp that has arrived, or `None`; does not wait.
    ///
    /// # Errors
    /// Reading from the socket fails.
    pub fn take_stamp(&mut self) -> Result<Option<SendStamp>> {
        take(self.socket())
    }
}

fn take(socket: &Socket) -> Result<Option<SendStamp>> {
    let mut control = Control([0; CONTROL]);
    // SAFETY: all-zero bytes are a valid `msghdr`: null pointers and integers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the message has no buffers but the control memory, which is writable for its stated
    // length and outlives the call.
    let read = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    if read < 0 {
        let error = Error::last("recvmsg(MSG_ERRQUEUE)", socket.device());
        return match error.errno() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(None),
            _ => Err(error),
        };
    }
    let len = (message.msg_controllen as usize).min(CONTROL);
    Ok(parse(&control.0[..len]))
}

/// Parses the stamp in control messages. Each message has a length, a level and a type, then data,
/// padded to 8 bytes.
fn parse(mut control: &[u8]) -> Option<SendStamp> {
    let header = len_of::<libc::cmsghdr>() as usize;
    let (mut number, mut nanos) = (None, None);
    while control.len() >= header {
        let len = usize::try_from(u64_at(control, 0)?).ok()?;
        let (level, kind) = (u32_at(control, 8)?, u32_at(control, 12)?);
        let data = control.get(header..len)?;
        match (level.cast_signed(), kind.cast_signed()) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                nanos = TIMES.into_iter().find_map(|at| {
                    let (secs, nanos) = (u64_at(data, at)?, u64_at(data, at + 8)?);
                    let whole = secs.checked_mul(1_000_000_000)?.checked_add(nanos)?;
                    (whole > 0).then_some(whole)
                });
            }
            (libc::SOL_PACKET, TX_TIMESTAMP) => number = u32_at(data, NUMBER_AT),
            _ => {}
        }
        control = control.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    Some(SendStamp {
        number: number?,
        nanos: nanos?,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

const _: () = assert!(size_of::<libc::cmsghdr>() == 16);
