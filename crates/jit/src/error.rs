//! Why a program could not be made native.

use crate::op::MAX_INSNS;

/// Why a program stays with the interpreter.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The processor is neither a little-endian x86-64 nor AArch64.
    #[error("no native code for this processor: {reason}")]
    Host {
        /// What the code generator says of the host.
        reason: String,
    },
    /// More instructions than [`MAX_INSNS`](crate::MAX_INSNS).
    #[error("{0} instructions; native code is made of at most {MAX_INSNS}")]
    TooLong(usize),
    /// An instruction outside classic BPF.
    #[error("instruction {at}: code {code:#06x} with these operands is not classic BPF")]
    Instruction {
        /// Index of the instruction.
        at: usize,
        /// Its operation code.
        code: u16,
    },
    /// The last instruction is not a return, or there is none.
    #[error("the program does not end with a return")]
    NoReturn,
    /// The code generator gave up.
    #[error("code generation failed: {reason}")]
    Codegen {
        /// The code generator's own words.
        reason: String,
    },
    /// Memory for the code was refused, or could not be made executable.
    #[error("no executable memory: {reason}")]
    Memory {
        /// What the system refused, with its reason.
        reason: String,
    },
}
