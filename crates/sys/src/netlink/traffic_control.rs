//! BPF filters at the qdisc `clsact`: the hook of kernels without tcx (before 6.6).
//!
//! Creates and removes the qdisc, and adds programs before a device's other filters. Filters are
//! not bound to a process: they stay until they are removed, which the caller must ensure.
//!
//! Source: `include/uapi/linux/{rtnetlink,pkt_sched,pkt_cls}.h`, tc-bpf(8).

use std::os::fd::{AsRawFd, BorrowedFd};

use super::message::{Attribute, Attributes, Request, read_u32};
use super::{Netlink, Result};
use crate::bpf::TcxSide;

// Constants that the libc crate lacks, or has for some targets only.
pub(super) const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
pub(super) const RTM_GETQDISC: u16 = 38;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;
pub(super) const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_ID: u16 = 11;
/// The program's result is the verdict, without an action after it (direct action).
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// `TC_H_CLSACT`, the place of the qdisc; then its two hooks, by their minor numbers.
pub(super) const PLACE: u32 = 0xffff_fff1;
const HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
/// `ETH_P_ALL`: every protocol.
const ALL_PROTOCOLS: u16 = 3;
/// Length of `struct tcmsg`, in bytes.
pub(super) const BODY_LEN: usize = 20;

/// A BPF filter at a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfFilter {
    /// Index of the device.
    pub index: u32,
    /// The direction of the packets that it sees.
    pub side: TcxSide,
    /// Filters of a smaller number run first.
    pub priority: u16,
    /// Its number among the filters of the same priority.
    pub handle: u32,
    /// Its name.
    pub name: String,
    /// The ID of its program (`bpftool prog show id`).
    pub program_id: Option<u32>,
}

impl Netlink {
    /// Adds the qdisc `clsact` to the device, unless it has it. Returns whether it was added. Needs
    /// `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The kernel was built without it, or the device has the qdisc `ingress`, which occupies the
    /// same place.
    pub fn add_clsact(&mut self, index: u32) -> Result<bool> {
        if self.has_clsact(index)? {
            return Ok(false);
        }
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.socket
            .execute(clsact((RTM_NEWQDISC, "RTM_NEWQDISC"), flags, index))?;
        Ok(true)
    }

    /// Removes the qdisc `clsact`, with all filters on it. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The device does not have it.
    pub fn remove_clsact(&mut self, index: u32) -> Result<()> {
        let request = clsact((RTM_DELQDISC, "RTM_DELQDISC"), libc::NLM_F_ACK, index);
        self.socket.execute(request).map(drop)
    }

    /// Returns whether the device has the qdisc `clsact`.
    ///
    /// # Errors
    /// The qdiscs cannot be read.
    pub fn has_clsact(&mut self, index: u32) -> Result<bool> {
        let get = (RTM_GETQDISC, "RTM_GETQDISC");
        let is_here = |payload: &[u8]| read_u32(payload, 4) == Some(index);
        for entry in self.table(get, &body(index, 0, 0, 0), RTM_NEWQDISC, is_here)? {
            if kind_of(&entry)? == b"clsact" {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a sched_cls program that runs before all filters on that side of the device, unless one
    /// of them has the highest priority. The qdisc must exist ([`add_clsact`](Self::add_clsact)).
    /// Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The qdisc is missing, or the kernel was built without BPF filters.
    pub fn add_bpf_filter(
        &mut self,
        index: u32,
        side: TcxSide,
        name: &str,
        program: BorrowedFd<'_>,
    ) -> Result<BpfFilter> {
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ECHO;
        // With priority 0 the kernel chooses one, and the echo reports it.
        let ahead = self.least_priority(index, side)?;
        let priority = ahead.map_or(0, |least| least.saturating_sub(1));
        let body = body(index, 0, parent(side), info(priority));
        let mut request = bpf_request((RTM_NEWTFILTER, "RTM_NEWTFILTER"), flags, &body, index);
        with_program(&mut request, name, program);
        let (call, context) = (request.call, request.context.clone());
        for record in self.socket.execute(request)? {
            if record.kind == RTM_NEWTFILTER
                && let Some(filter) = parse(&record.payload, side)?
            {
                return Ok(filter);
            }
        }
        let missing = std::io::Error::from_raw_os_error(libc::ENODATA);
        Err(crate::Error::new(call, context, missing).into())
    }

    /// Returns the priority of the filter that runs first, of any kind.
    fn least_priority(&mut self, index: u32, side: TcxSide) -> Result<Option<u16>> {
        let filters = self.filters(index, side)?;
        Ok(filters.iter().map(|filter| priority(filter)).min())
    }

    /// Returns the filters of any kind on one side of a device, in the order in which they run.
    fn filters(&mut self, index: u32, side: TcxSide) -> Result<Vec<Vec<u8>>> {
        let get = (RTM_GETTFILTER, "RTM_GETTFILTER");
        let body = body(index, 0, parent(side), 0);
        self.table(get, &body, RTM_NEWTFILTER, |_| true)
    }

    /// Replaces a filter's program; no packet in between misses both. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The filter does not exist, or the kernel rejects the request.
    pub fn replace_bpf_filter(
        &mut self,
        filter: &BpfFilter,
        program: BorrowedFd<'_>,
    ) -> Result<()> {
        let kind = (RTM_NEWTFILTER, "RTM_NEWTFILTER");
        let mut request = bpf_request(kind, libc::NLM_F_ACK, &filter.body(), filter.index);
        with_program(&mut request, &filter.name, program);
        self.socket.execute(request).map(drop)
    }

    /// Removes a filter. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The filter (`ENOENT`) or the device (`ENODEV`) does not exist.
    pub fn remove_bpf_filter(&mut self, filter: &BpfFilter) -> Result<()> {
        let kind = (RTM_DELTFILTER, "RTM_DELTFILTER");
        let request = bpf_request(kind, libc::NLM_F_ACK, &filter.body(), filter.index);
        self.socket.execute(request).map(drop)
    }

    /// Returns whether the qdisc has filters of any kind, on either side.
    ///
    /// # Errors
    /// The filters cannot be read.
    pub fn clsact_has_filters(&mut self, index: u32) -> Result<bool> {
        for side in [TcxSide::Ingress, TcxSide::Egress] {
            if !self.filters(index, side)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the BPF filters on one side of a device in the order in which they run; none without
    /// the qdisc.
    ///
    /// # Errors
    /// The filters cannot be read.
    pub fn bpf_filters(&mut self, index: u32, side: TcxSide) -> Result<Vec<BpfFilter>> {
        if !self.has_clsact(index)? {
            return Ok(Vec::new());
        }
        let filters = self.filters(index, side)?;
        let filters = filters.iter().map(|filter| parse(filter, side));
        filters.filter_map(Result::transpose).collect()
    }
}

impl BpfFilter {
    fn body(&self) -> [u8; BODY_LEN] {
        let info = info(self.priority);
        body(self.index, self.handle, parent(self.side), info)
    }
}

/// Returns the word of a filter's header with its priority, for packets of all protocols.
fn info(priority: u16) -> u32 {
    u32::from(priority) << 16 | u32::from(ALL_PROTOCOLS.to_be())
}

fn parent(side: TcxSide) -> u32 {
    match side {
        TcxSide::Ingress => INGRESS,
        TcxSide::Egress => EGRESS,
    }
}

/// Returns a `struct tcmsg`: family and padding, index, handle, parent, priority and protocol.
pub(super) fn body(index: u32, handle: u32, parent: u32, info: u32) -> [u8; BODY_LEN] {
    let mut body = [0; BODY_LEN];
    let words = [0, index, handle, parent, info];
    for (at, word) in body.chunks_exact_mut(4).zip(words) {
        at.copy_from_slice(&word.to_ne_bytes());
    }
    body
}

fn clsact(kind: (u16, &'static str), flags: i32, index: u32) -> Request {
    let context = format!("clsact on interface {index}");
    let mut request = Request::new(kind, flags, &body(index, HANDLE, PLACE, 0), context);
    request.string(TCA_KIND, b"clsact");
    request
}

fn bpf_request(
    kind: (u16, &'static str),
    flags: i32,
    body: &[u8; BODY_LEN],
    index: u32,
) -> Request {
    let mut request = Request::new(kind, flags, body, format!("bpf on interface {index}"));
    request.string(TCA_KIND, b"bpf");
    request
}

fn with_program(request: &mut Request, name: &str, program: BorrowedFd<'_>) {
    request.nested(TCA_OPTIONS, |options| {
        options.number(TCA_BPF_FD, program.as_raw_fd().cast_unsigned());
        options.string(TCA_BPF_NAME, name.as_bytes());
        options.number(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
    });
}

/// Returns the upper half of `tcm_info`.
fn priority(payload: &[u8]) -> u16 {
    let info = read_u32(payload, 16).unwrap_or_default();
    u16::try_from(info >> 16).unwrap_or_default()
}

fn kind_of(payload: &[u8]) -> Result<Vec<u8>> {
    let mut kind = Vec::new();
    Attributes::after(payload, BODY_LEN, "tcmsg")?.each(|attribute| {
        if attribute.kind == TCA_KIND {
            kind = attribute.string().to_vec();
        }
        Ok(())
    })?;
    Ok(kind)
}

/// Parses a BPF filter; returns `None` for other kinds, and for records that stand for all filters
/// of a priority.
fn parse(payload: &[u8], side: TcxSide) -> Result<Option<BpfFilter>> {
    let attributes = Attributes::after(payload, BODY_LEN, "tcmsg")?;
    let word = |at| read_u32(payload, at).unwrap_or_default();
    let mut filter = BpfFilter {
        index: word(4),
        side,
        priority: priority(payload),
        handle: word(8),
        name: String::new(),
        program_id: None,
    };
    let (mut is_bpf, mut options) = (false, None);
    attributes.each(|attribute| {
        match attribute.kind {
            TCA_KIND => is_bpf = attribute.string() == b"bpf",
            TCA_OPTIONS => options = Some(attribute),
            _ => {}
        }
        Ok(())
    })?;
    if !is_bpf || filter.handle == 0 {
        return Ok(None);
    }
    if let Some(options) = options {
        filter.read_options(&options)?;
    }
    Ok(Some(filter))
}

impl BpfFilter {
    fn read_options(&mut self, options: &Attribute<'_>) -> Result<()> {
        options.nested().each(|option| {
            match option.kind {
                TCA_BPF_NAME => self.name = String::from_utf8_lossy(option.string()).into_owned(),
                TCA_BPF_ID => self.program_id = Some(option.u32("TCA_BPF_ID")?),
                _ => {}
            }
            Ok(())
        })
    }
}
