//! Arguments of `bpf(2)` as its attributes hold them, and the information that it answers with.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::abi;
use super::error::{Error, Result};
use super::kernel::{Kernel, Request};

/// Returns the object's information, as far as the kernel knows it; the rest is zero.
pub(super) fn get_info<const SIZE: usize>(
    kernel: &Kernel,
    fd: BorrowedFd<'_>,
    context: &str,
) -> Result<[u8; SIZE]> {
    let mut buffer = [0_u8; SIZE];
    let mut attribute = abi::Info {
        fd: fd_number(&fd),
        info_size: size(SIZE),
        info: address_mut(&mut buffer),
    };
    // SAFETY: the kernel writes at most `info_size` bytes to the buffer, and takes pointers out of
    // it only where the length that goes with them is not 0; all of it is 0.
    let answer = unsafe { kernel.call(abi::OBJ_GET_INFO_BY_FD, &Request::Info, &mut attribute) };
    answer.map_err(|source| Error::call("bpf(BPF_OBJ_GET_INFO_BY_FD)", context, source, None))?;
    Ok(buffer)
}

/// Returns an fd in the form of attributes; fds are never negative.
pub(super) fn fd_number(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

/// Returns a slice's size in the form of attributes; the kernel rejects sizes that do not fit.
pub(super) fn size(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Returns a slice's address in the form of attributes; 0 for an empty one.
pub(super) fn address<T>(slice: &[T]) -> u64 {
    if slice.is_empty() {
        0
    } else {
        slice.as_ptr() as u64
    }
}

/// Returns the same as [`address`], for memory that the kernel writes to.
pub(super) fn address_mut<T>(slice: &mut [T]) -> u64 {
    if slice.is_empty() {
        0
    } else {
        slice.as_mut_ptr() as u64
    }
}

/// Returns the host-order number at an offset of a buffer that is known to contain it.
pub(super) fn u32_at(buffer: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&buffer[at..at + 4]);
    u32::from_ne_bytes(bytes)
}

/// Returns the same as [`u32_at`], of eight bytes.
pub(super) fn u64_at(buffer: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&buffer[at..at + 8]);
    u64::from_ne_bytes(bytes)
}
