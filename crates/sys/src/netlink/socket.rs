//! A synchronous netlink socket: one request, then its whole reply.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Error;
use super::message::{Attributes, HEADER_LEN, Message, Messages, Request, read_u32};
use crate::calls::{self, socklen};

/// The number of attempts at a dump if the tables change in the meantime.
const DUMP_ATTEMPTS: usize = 16;
const NLMSGERR_ATTR_MSG: u16 = 1;
/// The largest datagram accepted, in bytes: far above the kernel's 32 KiB, which only a device with
/// hundreds of virtual functions exceeds.
const DATAGRAM_MAX: usize = 16 << 20;

/// An owned message of a dump.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) kind: u16,
    pub(super) payload: Vec<u8>,
}

/// A socket for one netlink protocol, bound to the network namespace of the thread that opened it.
/// It keeps that namespace whichever thread uses it.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Returns the number of the socket's network namespace, which no later one gets (`SO_NETNS_COOKIE`).
    pub(super) fn namespace_cookie(&self) -> Option<u64> {
        let mut cookie = 0_u64;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_NETNS_COOKIE);
        let told = calls::get_option(&self.fd, level, name, &mut cookie);
        told.is_ok().then_some(cookie)
    }

    pub(super) fn open() -> Result<Self, Error> {
        Self::open_for(libc::NETLINK_ROUTE)
    }

    /// Opens a socket for a netlink protocol.
    pub(super) fn open_for(protocol: i32) -> Result<Self, Error> {
        let (kind, call) = (libc::SOCK_RAW, "socket(AF_NETLINK)");
        let fd = calls::socket(libc::AF_NETLINK, kind, protocol, call, "")?;
        // Explanations in errors, and no echo of the request: both optional, since Linux 4.12.
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let _ = calls::set_option(&fd, libc::SOL_NETLINK, option, &1_i32);
        }
        Ok(Self {
            fd,
            sequence: 0,
            buffer: Vec::new(),
        })
    }

    /// Sends a request, waits for the kernel's acknowledgement, and returns the messages before it.
    pub(super) fn execute(&mut self, mut request: Request) -> Result<Vec<Record>, Error> {
        let sequence = self.send(&mut request)?;
        let mut records = Vec::new();
        loop {
            self.receive(&request)?;
            for message in Messages::new(&self.buffer) {
                let message = message?;
                if message.sequence != sequence {
                    continue;
                }
                if i32::from(message.kind) == libc::NLMSG_ERROR {
                    verdict(&message, &request)?;
                    return Ok(records);
                }
                records.push(Record {
                    kind: message.kind,
                    payload: message.payload.to_vec(),
                });
            }
        }
    }

    /// Sends a dump request and returns the records whose payload `keep` accepts. Starts again if the tables
    /// changed in the meantime.
    pub(super) fn dump(
        &mut self,
        make: impl Fn() -> Request,
        keep: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Record>, Error> {
        for _ in 0..DUMP_ATTEMPTS {
            let mut request = make();
            let sequence = self.send(&mut request)?;
            if let Some(records) = self.collect(sequence, &request, &keep)? {
                return Ok(records);
            }
        }
        let request = make();
        Err(Error::Interrupted {
            call: request.call,
            attempts: DUMP_ATTEMPTS,
        })
    }

    /// Returns the records of one dump; `None` if it was interrupted.
    fn collect(
        &mut self,
        sequence: u32,
        request: &Request,
        keep: &impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<Record>>, Error> {
        let mut records = Vec::new();
        let mut consistent = true;
        loop {
            self.receive(request)?;
            for message in Messages::new(&self.buffer) {
                let message = message?;
                if message.sequence != sequence {
                    continue;
                }
                consistent &= i32::from(message.flags) & libc::NLM_F_DUMP_INTR == 0;
                match i32::from(message.kind) {
                    libc::NLMSG_ERROR => {
                        verdict(&message, request)?;
                    }
                    libc::NLMSG_DONE => {
                        verdict(&message, request)?;
                        return Ok(consistent.then_some(records));
                    }
                    _ if keep(message.payload) => records.push(Record {
                        kind: message.kind,
                        payload: message.payload.to_vec(),
                    }),
                    _ => {}
                }
            }
        }
    }

    fn send(&mut self, request: &mut Request) -> Result<u32, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        loop {
            // SAFETY: the pointer and the length describe `bytes`, which outlives the call.
            let sent =
                unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
            if sent >= 0 {
                return Ok(self.sequence);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(crate::Error::new("send(AF_NETLINK)", &request.context, error).into());
            }
        }
    }

    /// Fills the buffer with the next datagram of the kernel, whatever its size.
    fn receive(&mut self, request: &Request) -> Result<(), Error> {
        loop {
            self.buffer.clear();
            let (len, _) = self.receive_into(libc::MSG_PEEK | libc::MSG_TRUNC, request)?;
            self.buffer.resize(len.min(DATAGRAM_MAX), 0);
            let (len, sender) = self.receive_into(0, request)?;
            self.buffer.truncate(len);
            // Any process may send to this socket; only the kernel is port 0.
            if sender == 0 {
                return Ok(());
            }
        }
    }

    /// Calls `recvfrom` once; returns the datagram's length in bytes and the sender's port.
    fn receive_into(&mut self, flags: i32, request: &Request) -> Result<(usize, u32), Error> {
        loop {
            // SAFETY: sockaddr_nl holds integers only, for which zero is valid.
            let mut from: libc::sockaddr_nl = unsafe { zeroed() };
            let mut from_len = socklen(&from);
            // SAFETY: the buffer's pointer and length describe memory that this object owns, the
            // address pointers describe locals; all outlive the call.
            let received = unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    flags,
                    (&raw mut from).cast(),
                    &raw mut from_len,
                )
            };
            if let Ok(len) = usize::try_from(received) {
                return Ok((len, from.nl_pid));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(
                    crate::Error::new("recvfrom(AF_NETLINK)", &request.context, error).into(),
                );
            }
        }
    }
}

/// Returns the result in an `NLMSG_ERROR` or `NLMSG_DONE`: success, or the error with the kernel's
/// explanation.
fn verdict(message: &Message<'_>, request: &Request) -> Result<(), Error> {
    let Some(code) = read_u32(message.payload, 0) else {
        return Err(Error::Malformed {
            what: "acknowledgement",
            offset: HEADER_LEN,
            expected: 4,
            found: message.payload.len(),
        });
    };
    let code = code.cast_signed();
    if code >= 0 {
        return Ok(());
    }
    let explanation = explanation(message);
    let context = match explanation {
        Some(text) => format!("{} ({text})", request.context),
        None => request.context.clone(),
    };
    let source = io::Error::from_raw_os_error(code.saturating_neg());
    Err(crate::Error::new(request.call, context, source).into())
}

fn explanation(message: &Message<'_>) -> Option<String> {
    if i32::from(message.flags) & libc::NLM_F_ACK_TLVS == 0 {
        return None;
    }
    // The error code, then the header of the request (its body is capped), then attributes.
    let body = 4 + HEADER_LEN;
    let mut text = None;
    let attributes = Attributes::after(message.payload, body, "acknowledgement").ok()?;
    attributes
        .each(|attribute| {
            if attribute.kind == NLMSGERR_ATTR_MSG {
                text = Some(String::from_utf8_lossy(attribute.string()).into_owned());
            }
            Ok(())
        })
        .ok()?;
    text
}
