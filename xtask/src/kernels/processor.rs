//! The kinds of processors that QEMU emulates, and the words that differ with them.

/// A kind of processor.
#[derive(Debug)]
pub(crate) struct Processor {
    /// Its name in Debian's packages.
    pub(crate) debian: &'static str,
    /// The emulator, and Debian's package of it.
    pub(crate) qemu: &'static str,
    pub(crate) package: &'static str,
    /// QEMU's arguments for the board and the processor.
    pub(crate) board: &'static [&'static str],
    /// The emulator within QEMU.
    pub(crate) accelerator: &'static str,
    /// The kernel's name of the first serial port.
    pub(crate) console: &'static str,
    /// Where cargo puts what it builds for it, below the repository, and the programs in there.
    pub(crate) target: &'static str,
    pub(crate) programs: &'static str,
    /// Whether the host runs its programs. Where it does not, the machine has a root folder of its own.
    pub(crate) is_host: bool,
}

/// The host's. `max` has AVX and five levels of page tables, which cost time to emulate: the suites of stat took 63 s
/// with it, and 45 s without.
///
/// It is emulated on one thread. With a thread for each processor, one of them may continue to execute the breakpoint
/// that the kernel writes while it patches its own code (a static key of the hooks at `tc`), long after it was removed: a
/// soft lockup (seen with QEMU 7.2).
pub(crate) static X86_64: Processor = Processor {
    debian: "amd64",
    qemu: "qemu-system-x86_64",
    package: "qemu-system-x86",
    board: &["-machine", "q35", "-cpu", "Nehalem"],
    accelerator: "tcg,thread=single",
    console: "ttyS0",
    target: "target",
    programs: "target/debug",
    is_host: true,
};

/// 64-bit ARM, with the atomic instructions of version 8.1, and a thread for each processor: its kernel patches without
/// breakpoints. On one thread, a test's sender that never rests keeps the other processors from their turn for minutes.
pub(crate) static AARCH64: Processor = Processor {
    debian: "arm64",
    qemu: "qemu-system-aarch64",
    package: "qemu-system-arm",
    board: &["-machine", "virt", "-cpu", "neoverse-n1"],
    accelerator: "tcg,thread=multi",
    console: "ttyAMA0",
    target: "target/cross",
    programs: "target/cross/aarch64-unknown-linux-gnu/debug",
    is_host: false,
};
