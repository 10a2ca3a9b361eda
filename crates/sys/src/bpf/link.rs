//! Links attach a program to a hook. The program is detached when the link is dropped or the
//! process ends.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::abi;
use super::attribute::{address_mut, fd_number, get_info, size, u32_at};
use super::error::{Error, Needs, Result};
use super::kernel::{Kernel, Request};
use super::program::{CgroupHook, Program};

const TCX: Needs = Needs {
    what: "tcx",
    since: (6, 6),
};
const CGROUP: Needs = Needs {
    what: "a link to a control group",
    since: (5, 7),
};
const XDP_LINK: Needs = Needs {
    what: "an XDP link",
    since: (5, 9),
};

/// The place where XDP runs (`XDP_FLAGS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum XdpMode {
    /// Native if the driver supports it, otherwise generic.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the stack, on every device.
    Generic,
}

impl XdpMode {
    fn flags(self) -> u32 {
        match self {
            Self::Auto => 0,
            Self::Generic => 1 << 1,
            Self::Native => 1 << 2,
        }
    }

    fn call(self) -> &'static str {
        match self {
            Self::Auto => "bpf(BPF_LINK_CREATE, XDP)",
            Self::Native => "bpf(BPF_LINK_CREATE, XDP native)",
            Self::Generic => "bpf(BPF_LINK_CREATE, XDP generic)",
        }
    }
}

/// The two chains of tcx.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TcxSide {
    /// Packets that the device received.
    Ingress,
    /// Packets that leave by the device.
    Egress,
}

impl TcxSide {
    fn attach_type(self) -> u32 {
        match self {
            Self::Ingress => abi::ATTACH_TCX_INGRESS,
            Self::Egress => abi::ATTACH_TCX_EGRESS,
        }
    }

    fn create_call(self) -> &'static str {
        match self {
            Self::Ingress => "bpf(BPF_LINK_CREATE, tcx ingress)",
            Self::Egress => "bpf(BPF_LINK_CREATE, tcx egress)",
        }
    }

    fn query_call(self) -> &'static str {
        match self {
            Self::Ingress => "bpf(BPF_PROG_QUERY, tcx ingress)",
            Self::Egress => "bpf(BPF_PROG_QUERY, tcx egress)",
        }
    }
}

impl fmt::Display for TcxSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Ingress {
            "ingress"
        } else {
            "egress"
        })
    }
}

/// The place of a program in a tcx chain.
#[derive(Clone, Copy, Debug, Default)]
pub enum TcxPlace<'a> {
    /// Before all others.
    First,
    /// After all others.
    #[default]
    Last,
    /// Right before an anchor.
    Before(TcxAnchor<'a>),
    /// Right after an anchor.
    After(TcxAnchor<'a>),
}

/// A member of a tcx chain.
#[derive(Clone, Copy, Debug)]
pub enum TcxAnchor<'a> {
    /// A link of this process.
    Link(&'a Link),
    /// Any link, by its ID.
    LinkId(u32),
    /// Any program, by its ID.
    ProgramId(u32),
}

impl TcxPlace<'_> {
    /// Returns the flags and the anchor's fd or ID.
    fn encode(self) -> (u32, u32) {
        let (flag, anchor) = match self {
            Self::First => return (abi::BEFORE, 0),
            Self::Last => return (abi::AFTER, 0),
            Self::Before(anchor) => (abi::BEFORE, anchor),
            Self::After(anchor) => (abi::AFTER, anchor),
        };
        match anchor {
            TcxAnchor::Link(link) => (flag | abi::IS_LINK, fd_number(&link.fd)),
            TcxAnchor::LinkId(id) => (flag | abi::IS_LINK | abi::BY_ID, id),
            TcxAnchor::ProgramId(id) => (flag | abi::BY_ID, id),
        }
    }
}

/// A program attached to a hook of a device.
#[derive(Debug)]
pub struct Link {
    kernel: Kernel,
    fd: OwnedFd,
}

/// The kernel's information on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The link's ID, as `bpftool link` lists it.
    pub id: u32,
    /// The ID of its present program.
    pub program_id: u32,
    /// The device's index; `None` if the device was deleted or moved away.
    pub ifindex: Option<u32>,
}

impl Link {
    /// Attaches an XDP program to a device (link: 5.9).
    ///
    /// # Errors
    /// `EBUSY` if another program is attached, `EOPNOTSUPP` if the driver has no native XDP, each
    /// with its hint.
    pub fn xdp(program: &Program, kernel: &Kernel, ifindex: u32, mode: XdpMode) -> Result<Self> {
        let attribute = abi::LinkCreate {
            program_fd: fd_number(&program.as_fd()),
            target_ifindex: ifindex,
            attach_type: abi::ATTACH_XDP,
            flags: mode.flags(),
            ..Default::default()
        };
        Self::create(kernel, attribute, mode.call(), XDP_LINK)
    }

    /// Attaches a sched_cls program to a tcx chain of a device (6.6). With `expected_revision`
    /// (from [`query_tcx`]), fails if the chain has changed since.
    ///
    /// # Errors
    /// `EINVAL` on kernels without tcx, `ESTALE` if the chain has changed, each with its hint.
    pub fn tcx(
        program: &Program,
        kernel: &Kernel,
        ifindex: u32,
        side: TcxSide,
        place: TcxPlace<'_>,
        expected_revision: Option<u64>,
    ) -> Result<Self> {
        let (flags, relative) = place.encode();
        let attribute = abi::LinkCreate {
            program_fd: fd_number(&program.as_fd()),
            target_ifindex: ifindex,
            attach_type: side.attach_type(),
            flags,
            relative,
            expected_revision: expected_revision.unwrap_or_default(),
            ..Default::default()
        };
        Self::create(kernel, attribute, side.create_call(), TCX)
    }

    /// Attaches a program to a control group (version 2), whose folder is open as `group`, and to all
    /// those below it (link: 5.7).
    ///
    /// # Errors
    /// `EBADF` if the folder is not one of a control group; `EPERM` without `CAP_NET_ADMIN`.
    pub fn cgroup(
        program: &Program,
        kernel: &Kernel,
        group: BorrowedFd<'_>,
        hook: CgroupHook,
    ) -> Result<Self> {
        let attribute = abi::LinkCreate {
            program_fd: fd_number(&program.as_fd()),
            target_ifindex: fd_number(&group),
            attach_type: hook.attach_type(),
            ..Default::default()
        };
        Self::create(
            kernel,
            attribute,
            "bpf(BPF_LINK_CREATE, control group)",
            CGROUP,
        )
    }

    fn create(
        kernel: &Kernel,
        mut attribute: abi::LinkCreate,
        call: &'static str,
        needs: Needs,
    ) -> Result<Self> {
        let request = Request::Attach {
            attach_type: attribute.attach_type,
        };
        // SAFETY: the attribute holds no pointer, and the command makes a link.
        let answer = unsafe { kernel.open(abi::LINK_CREATE, &request, &mut attribute) };
        let fd = answer.map_err(|source| {
            let device = format!("on interface {}", attribute.target_ifindex);
            Error::call(call, device, source, Some(needs))
        })?;
        let kernel = kernel.clone();
        Ok(Self { kernel, fd })
    }

    /// Replaces the program in one step; no packet in between misses both. With `expected`, fails
    /// if another program is attached.
    ///
    /// # Errors
    /// `EPERM` if another program than `expected` is attached, `ENOLINK` if the device is gone.
    pub fn update(&self, program: &Program, expected: Option<&Program>) -> Result<()> {
        let mut attribute = abi::LinkUpdate {
            link_fd: fd_number(&self.fd),
            new_program_fd: fd_number(&program.as_fd()),
            flags: if expected.is_some() { abi::REPLACE } else { 0 },
            old_program_fd: expected.map_or(0, |old| fd_number(&old.as_fd())),
        };
        // SAFETY: the attribute holds no pointer.
        let answer = unsafe {
            self.kernel
                .call(abi::LINK_UPDATE, &Request::LinkUpdate, &mut attribute)
        };
        answer
            .map_err(|source| Error::call("bpf(BPF_LINK_UPDATE)", program.name(), source, None))?;
        Ok(())
    }

    /// Detaches the program from its hook for good, even if other processes hold the link (5.9).
    ///
    /// # Errors
    /// `EOPNOTSUPP` if links of the kind cannot be detached.
    pub fn detach(&self) -> Result<()> {
        let mut attribute = abi::LinkFd {
            link_fd: fd_number(&self.fd),
        };
        // SAFETY: the attribute holds no pointer.
        let answer = unsafe {
            self.kernel
                .call(abi::LINK_DETACH, &Request::LinkUpdate, &mut attribute)
        };
        answer.map_err(|source| Error::call("bpf(BPF_LINK_DETACH)", "link", source, None))?;
        Ok(())
    }

    /// Returns the link of a program, whichever process made it, as `bpftool link` finds it.
    /// Dropping the returned link does not detach the program if its maker still holds it. Needs
    /// `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// `EPERM` without the privilege.
    pub fn holding(kernel: &Kernel, program_id: u32) -> Result<Option<Self>> {
        let mut id = 0;
        while let Some(next) = link_after(kernel, id)? {
            id = next;
            // A link that was removed in the meantime has no fd, and some kinds have no program or device.
            let link = Self::by_id(kernel, id)?;
            let info = link.as_ref().map(Self::info).transpose()?;
            if info.is_some_and(|info| info.program_id == program_id) {
                return Ok(link);
            }
        }
        Ok(None)
    }

    fn by_id(kernel: &Kernel, id: u32) -> Result<Option<Self>> {
        let mut attribute = abi::Id {
            id,
            ..Default::default()
        };
        // SAFETY: the attribute holds no pointer, and the command makes a descriptor.
        let answer = unsafe { kernel.open(abi::LINK_GET_FD_BY_ID, &Request::Info, &mut attribute) };
        let kernel = kernel.clone();
        let found = if_any(answer).map_err(|source| {
            let (call, what) = ("bpf(BPF_LINK_GET_FD_BY_ID)", format!("link {id}"));
            Error::call(call, what, source, None)
        })?;
        Ok(found.map(|fd| Self { kernel, fd }))
    }

    /// Returns the IDs of link and program, and the device.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn info(&self) -> Result<LinkInfo> {
        let info: [u8; abi::LINK_INFO_SIZE] = get_info(&self.kernel, self.fd.as_fd(), "link")?;
        let ifindex = u32_at(&info, abi::LINK_INFO_IFINDEX);
        Ok(LinkInfo {
            id: u32_at(&info, abi::LINK_INFO_ID),
            program_id: u32_at(&info, abi::LINK_INFO_PROGRAM),
            ifindex: (ifindex != 0).then_some(ifindex),
        })
    }
}

/// Returns the next link's ID.
fn link_after(kernel: &Kernel, id: u32) -> Result<Option<u32>> {
    let mut attribute = abi::Id {
        id,
        ..Default::default()
    };
    // SAFETY: the attribute holds no pointer.
    let answer = unsafe { kernel.call(abi::LINK_GET_NEXT_ID, &Request::Info, &mut attribute) };
    let found = if_any(answer)
        .map_err(|source| Error::call("bpf(BPF_LINK_GET_NEXT_ID)", "links", source, None))?;
    Ok(found.map(|_| attribute.next_id))
}

/// Returns `None` if the call failed because there is no such thing.
fn if_any<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        answer => answer.map(Some),
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A tcx chain at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcxChain {
    /// Increases with every change of the chain.
    pub revision: u64,
    /// Members in the order in which they see a packet.
    pub members: Vec<TcxMember>,
}

/// A member of a tcx chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcxMember {
    /// The program's ID.
    pub program_id: u32,
    /// The link's ID; `None` for a program attached without a link.
    pub link_id: Option<u32>,
}

/// The kernel's limit of a chain's length (`BPF_MPROG_MAX`).
const CHAIN_BOUND: usize = 64;

/// Returns the programs in a device's tcx chain (6.6).
///
/// # Errors
/// `EINVAL` on kernels without tcx, `ENODEV` if there is no such device.
pub fn query_tcx(kernel: &Kernel, ifindex: u32, side: TcxSide) -> Result<TcxChain> {
    let (mut programs, mut links) = ([0_u32; CHAIN_BOUND], [0_u32; CHAIN_BOUND]);
    let mut attribute = abi::Query {
        target_ifindex: ifindex,
        attach_type: side.attach_type(),
        program_ids: address_mut(&mut programs),
        count: size(CHAIN_BOUND),
        link_ids: address_mut(&mut links),
        ..Default::default()
    };
    let request = Request::Attach {
        attach_type: attribute.attach_type,
    };
    // SAFETY: both arrays have room for `count` IDs and are borrowed exclusively until the call
    // returns; the other pointers are null, which the kernel ignores.
    let answer = unsafe { kernel.call(abi::PROG_QUERY, &request, &mut attribute) };
    let chain = if_any(answer).map_err(|source| {
        let context = format!("on interface {ifindex}");
        Error::call(side.query_call(), context, source, Some(TCX))
    })?;
    // Without one, the chain has never been used.
    let count = chain.map_or(0, |_| attribute.count as usize);
    let members = programs.iter().zip(&links).take(count);
    Ok(TcxChain {
        revision: attribute.revision,
        members: members
            .map(|(&program_id, &link)| TcxMember {
                program_id,
                link_id: (link != 0).then_some(link),
            })
            .collect(),
    })
}
