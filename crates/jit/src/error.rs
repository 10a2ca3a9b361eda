//! Errors of the translation into native code.

use crate::op::MAX_INSNS;

/// The reason why a program has no native code; the interpreter still runs it.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The processor is neither a little-endian x86-64 nor AArch64.
    #[error("no native code for this processor: {reason}")]
    Host {
        /// The code generator's reason.
        reason: String,
    },
    /// More instructions than [`MAX_INSNS`].
    #[error("the program has {0} instructions; native code supports at most {MAX_INSNS}")]
    TooLong(usize),
    /// An instruction outside classic BPF.
    #[error("instruction {at}: code {code:#06x} with these operands is not classic BPF")]
    Instruction {
        /// Index of the instruction.
        at: usize,
        /// Its operation code.
        code: u16,
    },
    /// A load that asks for the packet's process.
    #[error("instruction {at} asks for the packet's process, which native code does not know")]
    Process {
        /// Index of the instruction.
        at: usize,
    },
    /// The last instruction is not a return, or there is none.
    #[error("the program does not end with a return")]
    NoReturn,
    /// The code generator failed.
    #[error("code generation failed: {reason}")]
    Codegen {
        /// The code generator's reason.
        reason: String,
    },
    /// Memory for the code could not be allocated or made executable.
    #[error("no executable memory: {reason}")]
    Memory {
        /// The failed call, with the system's reason.
        reason: String,
    },
}
