//! A filter as native code: the interface of this crate.

use std::{fmt, ptr};

use ringtap_filter::{Ancillary, Program};

use crate::code::{Analysed, Code, compile};
use crate::error::NativeError;
use crate::metadata::Metadata;
use crate::packet::PacketRef;

/// A filter program in native code, compiled once.
///
/// Threads can share it and call it at the same time: the code has no state. Dropping it frees its
/// executable memory.
pub struct Native {
    code: Code,
}

impl Native {
    /// Translates a program for this processor.
    ///
    /// # Errors
    ///
    /// If this processor is not supported, if the program is longer than
    /// [`MAX_INSNS`](crate::MAX_INSNS), or if the system forbids executable memory, as a hardened
    /// one may. Use the interpreter then.
    pub fn compile(program: &Program) -> Result<Self, NativeError> {
        let code = compile(&Analysed::new(program)?)?;
        Ok(Self { code })
    }

    /// Returns the verdict on one packet, as [`Program::run`] does: the number of bytes to accept,
    /// or 0 to reject the packet.
    ///
    /// `len` is the packet's length on the wire in bytes; `data` holds its captured bytes.
    #[inline]
    #[must_use]
    pub fn run(&self, data: &[u8], len: u32) -> u32 {
        self.call(PacketRef::new(data, len), None)
    }

    /// Returns the verdict like [`run`](Self::run), with the packet's metadata for the Linux
    /// ancillary loads, as [`Program::run_with`].
    #[must_use]
    pub fn run_with(&self, data: &[u8], len: u32, ancillary: &Ancillary) -> u32 {
        self.call(PacketRef::new(data, len), Some(&Metadata::from(ancillary)))
    }

    #[inline]
    fn call(&self, packet: PacketRef<'_>, metadata: Option<&Metadata>) -> u32 {
        let metadata = metadata.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: a `PacketRef` borrows `caplen` readable bytes, and the code reads only below
        // `caplen`. `metadata` is null, which the code tests, or borrowed. `self` keeps the code
        // alive.
        unsafe { (self.code.single)(packet.as_ptr(), packet.caplen(), packet.len(), metadata) }
    }

    /// Writes the verdicts on a batch of packets, in one call: the loop over the packets is part of
    /// the generated code.
    ///
    /// # Panics
    ///
    /// If there are fewer verdicts than packets.
    pub fn run_batch(&self, packets: &[PacketRef<'_>], verdicts: &mut [u32]) {
        self.call_batch(packets, None, verdicts);
    }

    /// Writes the verdicts like [`run_batch`](Self::run_batch), with each packet's metadata for the
    /// Linux ancillary loads.
    ///
    /// # Panics
    ///
    /// If there are fewer verdicts or metadata than packets.
    pub fn run_batch_with(
        &self,
        packets: &[PacketRef<'_>],
        metadata: &[Metadata],
        verdicts: &mut [u32],
    ) {
        self.call_batch(packets, Some(metadata), verdicts);
    }

    fn call_batch(
        &self,
        packets: &[PacketRef<'_>],
        metadata: Option<&[Metadata]>,
        verdicts: &mut [u32],
    ) {
        let count = packets.len();
        assert!(verdicts.len() >= count, "a verdict for each packet");
        assert!(
            metadata.is_none_or(|each| each.len() >= count),
            "metadata for each packet"
        );
        if count == 0 {
            return;
        }
        let metadata = metadata.map_or(ptr::null(), <[Metadata]>::as_ptr);
        // SAFETY: `packets` holds `count` elements, at least one, in the layout that the code
        // expects (asserted where `PacketRef` is defined), each borrowing `caplen` readable bytes;
        // the code reads only below `caplen`. `metadata` is null, which the code tests, or has
        // `count` elements too. `verdicts` has room for `count` words and overlaps nothing, because
        // it is borrowed mutably. `self` keeps the code alive.
        unsafe { (self.code.batch)(packets.as_ptr(), metadata, verdicts.as_mut_ptr(), count) }
    }

    /// Returns the size of the machine code in bytes.
    #[must_use]
    pub fn code_size(&self) -> usize {
        self.code.size
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native")
            .field("code_size", &self.code.size)
            .finish_non_exhaustive()
    }
}
