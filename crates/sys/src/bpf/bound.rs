//! Programs for one device, which the kernel must not move in memory.
//!
//! The kernel records the address of such a program before the verifier runs, and does not update
//! it when the program moves (Linux 6.3, which introduced them, to 6.18 at least). If the device is
//! then deleted while the program is loaded, the kernel accesses freed memory while it holds the
//! lock of all network configuration. After that nothing can be configured until a reboot. A
//! program moves in two cases:
//!
//! - The verifier's rewriting makes it longer than its pages. So it is loaded with extra room:
//!   instructions in front of it that are never reached. The verifier removes them before it
//!   rewrites anything, and the pages stay.
//! - Constants are hidden (`net.core.bpf_jit_harden` = 2), which makes a copy. Programs for one
//!   device are then not loaded.
//!
//! Source: `kernel/bpf/offload.c`, `bpf_prog_realloc` and `bpf_jit_blind_constants` of `kernel/bpf/core.c`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::error::{Error, Hint, Result};
use super::mapping::page_size;

pub(super) const INSTRUCTION: usize = 8;
/// Instructions that the verifier may make of one, and of a program besides.
const GROWTH: usize = 5;
const GROWTH_BESIDES: usize = 512;
/// Bytes of a page reserved for `struct bpf_prog`, some 80 bytes, before its instructions: whatever
/// its size, the instructions end within the page.
const HEAD: usize = 512;
/// The longest jump with a 16-bit offset, in instructions.
const JUMP: usize = i16::MAX as usize;

/// A program with room for the verifier's rewriting.
#[derive(Debug)]
pub(super) struct Roomy {
    pub(super) instructions: Vec<u64>,
    pub(super) marks: Vec<(usize, &'static str)>,
}

impl Roomy {
    pub(super) fn new(instructions: &[u64], marks: &[(usize, &'static str)]) -> Self {
        let most = instructions.len() * GROWTH + GROWTH_BESIDES;
        let bytes = (most * INSTRUCTION + HEAD).next_multiple_of(page_size()) - HEAD;
        let room = bytes / INSTRUCTION - instructions.len();
        let mut roomy = vec![set_r0()];
        while roomy.len() < room {
            // If only one is left, it is reached.
            let skipped = (room - roomy.len() - 1).min(JUMP);
            roomy.push(skip(skipped));
            roomy.extend(std::iter::repeat_n(set_r0(), skipped));
        }
        roomy.extend_from_slice(instructions);
        // The first part begins at the program's first instruction.
        let shifted = marks.iter().map(|&(word, name)| match word {
            0 => (0, name),
            word => (word + room, name),
        });
        Self {
            marks: shifted.collect(),
            instructions: roomy,
        }
    }

    /// Returns the bytes of whole pages that the kernel allocates for the program, as long as it
    /// does not move.
    fn memory(&self) -> usize {
        (self.instructions.len() * INSTRUCTION + HEAD).next_multiple_of(page_size())
    }

    /// Compares the kernel's memory for the program with the size at load.
    ///
    /// # Errors
    /// A program that has moved; the caller is to let go of it at once.
    pub(super) fn has_stayed(&self, program: BorrowedFd<'_>, name: &str) -> Result<()> {
        // If the kernel does not report it, the room is the allocated size.
        let moved = memory_of(program).is_some_and(|memory| memory > self.memory());
        if moved {
            return Err(moves(name));
        }
        Ok(())
    }
}

/// Returns the bytes of whole pages in which the kernel holds a program's instructions.
pub(super) fn memory_of(program: BorrowedFd<'_>) -> Option<usize> {
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("memlock:"))?;
    value.trim().parse().ok()
}

/// Returns the error of a program that would not stay in place.
pub(super) fn moves(name: &str) -> Error {
    let source = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    Error::Call {
        error: crate::Error::new("bpf(BPF_PROG_LOAD, XDP)", name, source),
        hint: Some(Hint::WouldMove),
    }
}

/// Returns `r0 = 0`.
fn set_r0() -> u64 {
    instruction(0xb7, 0, 0)
}

/// Returns `if r0 == 0 goto +count`.
fn skip(count: usize) -> u64 {
    instruction(0x15, i16::try_from(count).unwrap_or(i16::MAX), 0)
}

/// Returns a `struct bpf_insn` with R0 for its registers.
pub(super) fn instruction(code: u8, offset: i16, constant: i32) -> u64 {
    let [low, high] = offset.to_ne_bytes();
    let [a, b, c, d] = constant.to_ne_bytes();
    u64::from_ne_bytes([code, 0, low, high, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_skipped_and_ends_within_a_page() {
        for length in [1, 2, 100, 500, 700, 1_000, 4_096, 40_000] {
            let code: Vec<u64> = (1..=length).map(|word| word << 8).collect();
            let marks = [(0, "first"), (1, "second")];
            let roomy = Roomy::new(&code, &marks);
            let room = roomy.instructions.len() - code.len();
            assert!(room > 4 * code.len() + 500, "{length}: {room}");
            assert_eq!(roomy.instructions[room..], code);
            assert_eq!(roomy.marks, [(0, "first"), (room + 1, "second")]);
            // From the first instruction on, each jump leads to the next one, and the last to the
            // program.
            let mut at = 1;
            let mut reached = 1;
            while at < room {
                let [code, _, low, high, ..] = roomy.instructions[at].to_ne_bytes();
                assert_eq!(code, 0x15, "{length}: {at}");
                at += 1 + usize::from(u16::from_ne_bytes([low, high]));
                reached += 1;
            }
            assert_eq!(at, room, "{length}");
            assert!(reached <= 2 + room / JUMP, "{length}: {reached}");
            let bytes = roomy.instructions.len() * INSTRUCTION;
            for head in [56, 72, 80, 128, HEAD] {
                let taken = (bytes + head).next_multiple_of(page_size());
                assert_eq!(taken, roomy.memory(), "{length}, {head}");
            }
        }
    }
}
