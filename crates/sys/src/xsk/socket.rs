//! The common part of sockets that receive and that send: memory, options, binding.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::umem::Umem;
use crate::{Error, Result, calls};

/// How long a queue may stay in use after its last socket was closed: a kernel worker frees it
/// later, and on a busy machine the worker may have to wait.
const RELEASE: Duration = Duration::from_secs(2);
/// The interval between two attempts to bind to a queue that is in use.
const AGAIN: Duration = Duration::from_millis(2);

/// The options for receiving or sending by one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Index of the device, in the calling thread's network namespace.
    pub ifindex: u32,
    /// The queue.
    pub queue: u32,
    /// Number of frames, a power of two; each holds one packet.
    pub frames: u32,
    /// Bytes of a frame: 2048 or 4096. A received packet must be at least 256 bytes shorter.
    pub frame_size: u32,
    /// How packets enter or leave the memory. In zero-copy mode, the host receives nothing by a
    /// queue while a socket sends by it: the frames would have to come from that socket.
    pub binding: Binding,
}

/// How packets enter or leave the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// The adapter accesses the memory directly if its driver supports it; otherwise packets are
    /// copied.
    #[default]
    Automatic,
    /// Packets are copied.
    Copy,
    /// The adapter accesses the memory directly; if it cannot, opening fails.
    ZeroCopy,
}

impl Binding {
    fn flags(self) -> u16 {
        let mode = match self {
            Self::Automatic => 0,
            Self::Copy => libc::XDP_COPY,
            Self::ZeroCopy => libc::XDP_ZEROCOPY,
        };
        mode | libc::XDP_USE_NEED_WAKEUP
    }
}

/// A socket that is not bound yet, with its memory registered and its ring sizes set.
pub(super) struct Opened {
    // Dropped in this order: the socket before the memory that the kernel accesses for it.
    pub(super) socket: OwnedFd,
    pub(super) umem: Arc<Umem>,
    pub(super) offsets: libc::xdp_mmap_offsets,
    /// The bound socket that the memory was registered for, if it is another one.
    registered_by: Option<RawFd>,
}

impl Opened {
    /// Opens a socket. `descriptors` names its ring of descriptors: the option, and the call for
    /// error messages. The memory is registered for this socket, unless `registered_by` has it;
    /// that socket must then live until this one is bound.
    pub(super) fn new(
        options: &QueueOptions,
        umem: Arc<Umem>,
        registered_by: Option<BorrowedFd<'_>>,
        descriptors: (libc::c_int, &'static str),
    ) -> Result<Self> {
        let (kind, context) = (libc::SOCK_RAW, options.context());
        let socket = calls::socket(libc::AF_XDP, kind, 0, "socket(AF_XDP)", context)?;
        if registered_by.is_none() {
            register(&socket, &umem)?;
        }
        // The kernel requires the first two even if packets go only one way.
        for (option, call) in [
            (libc::XDP_UMEM_FILL_RING, "setsockopt(XDP_UMEM_FILL_RING)"),
            (
                libc::XDP_UMEM_COMPLETION_RING,
                "setsockopt(XDP_UMEM_COMPLETION_RING)",
            ),
            descriptors,
        ] {
            set(&socket, option, &options.frames, call)?;
        }
        let offsets = ring_offsets(&socket)?;
        Ok(Self {
            socket,
            umem,
            offsets,
            registered_by: registered_by.map(|socket| socket.as_raw_fd()),
        })
    }

    /// Binds the socket to the queue; also returns whether the adapter accesses the memory
    /// directly.
    pub(super) fn bind(self, options: &QueueOptions) -> Result<(OwnedFd, Arc<Umem>, bool)> {
        let begin = Instant::now();
        while let Err(source) = bind(&self.socket, options, self.registered_by) {
            let is_taken = source.raw_os_error() == Some(libc::EBUSY);
            if !is_taken || begin.elapsed() > RELEASE {
                return Err(Error::new("bind(AF_XDP)", options.context(), source));
            }
            std::thread::sleep(AGAIN);
        }
        let is_zero_copy = is_zero_copy(&self.socket);
        Ok((self.socket, self.umem, is_zero_copy))
    }
}

impl QueueOptions {
    /// Allocates memory for `sockets` sockets with these options.
    pub(super) fn memory(&self, sockets: u32) -> Result<Umem> {
        let frames = self.frames.checked_mul(sockets);
        let frames = frames
            .filter(|_| self.frames.is_power_of_two() && [2048, 4096].contains(&self.frame_size));
        let Some(frames) = frames.filter(|frames| *frames > 0) else {
            let invalid = std::io::Error::from_raw_os_error(libc::EINVAL);
            let call = "setsockopt(XDP_UMEM_REG)";
            return Err(Error::new(call, self.context(), invalid));
        };
        Umem::new(frames, self.frame_size)
    }

    fn context(&self) -> String {
        format!("queue {} of interface {}", self.queue, self.ifindex)
    }
}

fn register(socket: &OwnedFd, umem: &Umem) -> Result<()> {
    // SAFETY: the structure holds integers only, for which zero is valid.
    let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    registration.addr = umem.address();
    registration.len = umem.len() as u64;
    registration.chunk_size = umem.frame_size();
    let call = "setsockopt(XDP_UMEM_REG)";
    let mut registered = set(socket, libc::XDP_UMEM_REG, &registration, call);
    if let Err(error) = &mut registered
        && error.errno() == Some(libc::ENOBUFS)
    {
        error.context = format!(
            "of {} KiB, for which CAP_IPC_LOCK or a higher limit on locked memory (ulimit -l) is needed",
            umem.len() >> 10
        );
    }
    registered
}

fn ring_offsets(socket: &OwnedFd) -> Result<libc::xdp_mmap_offsets> {
    // SAFETY: the structure holds integers only, for which zero is valid.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let call = "getsockopt(XDP_MMAP_OFFSETS)";
    get(socket, libc::XDP_MMAP_OFFSETS, &mut offsets, call)?;
    Ok(offsets)
}

fn is_zero_copy(socket: &OwnedFd) -> bool {
    /// `XDP_OPTIONS_ZEROCOPY`.
    const ZERO_COPY: u32 = 1;
    let mut flags = 0_u32;
    let told = get(
        socket,
        libc::XDP_OPTIONS,
        &mut flags,
        "getsockopt(XDP_OPTIONS)",
    );
    told.is_ok() && flags & ZERO_COPY != 0
}

/// Binds a socket. If it shares memory, it is bound through the socket that registered the memory.
fn bind(
    socket: &OwnedFd,
    options: &QueueOptions,
    registered_by: Option<RawFd>,
) -> std::io::Result<()> {
    let flags = match registered_by {
        None => options.binding.flags(),
        Some(_) => libc::XDP_SHARED_UMEM,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::sa_family_t::try_from(libc::AF_XDP).unwrap_or_default(),
        sxdp_flags: flags,
        sxdp_ifindex: options.ifindex,
        sxdp_queue_id: options.queue,
        sxdp_shared_umem_fd: registered_by.map_or(0, RawFd::cast_unsigned),
    };
    calls::bind(socket, &address)
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T, call: &'static str) -> Result<()> {
    set_at(socket, libc::SOL_XDP, option, value, call)
}

pub(super) fn set_at<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
    call: &'static str,
) -> Result<()> {
    calls::set_option(socket, level, option, value).map_err(|source| Error::new(call, "", source))
}

pub(super) fn get<T: Copy>(
    socket: &OwnedFd,
    option: libc::c_int,
    value: &mut T,
    call: &'static str,
) -> Result<()> {
    calls::get_option(socket, libc::SOL_XDP, option, value)
        .map_err(|source| Error::new(call, "", source))
}
