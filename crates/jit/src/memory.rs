//! Executable memory: copies pieces of machine code into a mapping, which is unmapped on drop.
//!
//! The mapping is anonymous, which is allowed even on systems that forbid executing the heap
//! (SELinux's `execheap`). It is written while readable and writable, and then becomes readable and
//! executable for good. No page is ever writable and executable at once.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// The alignment of each piece. It is a cache line, and at least the alignment of the constants
/// beside the code.
const ALIGNMENT: usize = 64;

/// Pages of machine code.
#[derive(Debug)]
pub(crate) struct Executable {
    start: NonNull<u8>,
    /// Number of mapped bytes; above zero.
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, is not bound to a thread, and is only read and
// executed.
unsafe impl Send for Executable {}
// SAFETY: as above; nothing changes it through a shared borrow.
unsafe impl Sync for Executable {}

impl Executable {
    /// Maps the pieces and returns the address of each. The addresses are valid until the value is
    /// dropped.
    ///
    /// # Errors
    /// The system has no memory, or forbids executable memory.
    pub(crate) fn new<const N: usize>(pieces: [&[u8]; N]) -> io::Result<(Self, [*const u8; N])> {
        let mut length = 0;
        let offsets = pieces.map(|piece| {
            let offset = length;
            length += piece.len().next_multiple_of(ALIGNMENT);
            offset
        });
        let memory = Self::map(length.max(ALIGNMENT))?;
        for (piece, offset) in pieces.iter().zip(offsets) {
            // SAFETY: `offset + piece.len()` is at most the length of the mapping, which is
            // writable and to which no other reference exists.
            unsafe {
                let to = memory.start.as_ptr().add(offset);
                std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len());
            }
        }
        memory.protect()?;
        // SAFETY: every offset is within the mapping.
        let addresses =
            offsets.map(|offset| unsafe { memory.start.as_ptr().add(offset).cast_const() });
        Ok((memory, addresses))
    }

    fn map(length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice, touches no memory
        // in use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Self { start, length }),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// Makes the memory executable and no longer writable.
    fn protect(&self) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the whole of a mapping that this value owns; no reference into it exists.
        let status = unsafe { libc::mprotect(self.address(), self.length, protection) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        synchronise()
    }

    fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping and is being dropped, so its addresses are no longer
        // used. Unmapping fails only if the kernel has no memory to split a mapping; the pages are
        // then lost, which is harmless.
        unsafe { libc::munmap(self.address(), self.length) };
    }
}

/// Makes all threads of this process fetch instructions again. The kernel cleans the caches when it makes a
/// page executable.
#[cfg(target_arch = "aarch64")]
fn synchronise() -> io::Result<()> {
    /// Commands of membarrier(2).
    const SYNC_CORE: libc::c_int = 1 << 5;
    const REGISTER_SYNC_CORE: libc::c_int = 1 << 6;
    let call = |command: libc::c_int| {
        // SAFETY: the call takes no pointers.
        match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // A process registers once; registering again has no effect.
    call(REGISTER_SYNC_CORE).and_then(|()| call(SYNC_CORE))
}

/// x86-64 keeps fetched instructions coherent by itself.
#[cfg(not(target_arch = "aarch64"))]
#[expect(clippy::unnecessary_wraps, reason = "another processor's may fail")]
fn synchronise() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ALIGNMENT, Executable};

    /// Sizes around the alignment and around a page.
    #[test]
    fn pieces_are_where_they_are_said_to_be() {
        for length in [0, 1, 63, 64, 65, 4095, 4096, 4097, 100_000] {
            let pieces = [vec![0xab; length], vec![0xcd; length + 3]];
            let (memory, addresses) =
                Executable::new([&pieces[0], &pieces[1]]).expect("executable memory");
            for (piece, address) in pieces.iter().zip(addresses) {
                assert_eq!(address as usize % ALIGNMENT, 0);
                // SAFETY: as long as the piece, and the mapping is alive.
                let held = unsafe { std::slice::from_raw_parts(address, piece.len()) };
                assert_eq!(held, piece);
            }
            drop(memory);
        }
    }
}
