//! How much an inspector may hold and look at.

ringtap_packet::options! {
    /// Sizes of an [`Inspector`](crate::Inspector): its memory and how far it looks into a flow.
    ///
    /// ```
    /// use ringtap_inspect::{InspectOptions, Inspector};
    ///
    /// let options = InspectOptions::default().names(1024);
    /// let inspector = Inspector::new(&options)?;
    /// assert_eq!(inspector.counters().names, 0);
    /// # Ok::<(), ringtap_inspect::OptionError>(())
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct InspectOptions {
        /// Payloads looked at for each direction of a flow: 1 to 15. A message that is under way then may have
        /// 32 more.
        pub payloads: u8,
        /// Handshakes that span packets and are put together at a time, over all flows: 1 to 65535.
        pub buffers: u16,
        /// Bytes of such a handshake: 512 to 65536.
        pub buffer_bytes: u32,
        /// Addresses in the passive table of names: 0 (no table) to 2^24. Rounded up to a power of two.
        pub names: u32,
        /// A number that senders of packets cannot guess, for the table's hash.
        pub seed: u64,
    }
}

impl Default for InspectOptions {
    fn default() -> Self {
        Self {
            payloads: 8,
            buffers: 256,
            buffer_bytes: 16_384,
            names: 1 << 16,
            seed: 0,
        }
    }
}

/// An invalid value of [`InspectOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// [`InspectOptions::payloads`] is out of range.
    #[error("payloads: {0} is not between 1 and 15")]
    Payloads(u8),
    /// [`InspectOptions::buffers`] is 0.
    #[error("buffers: 0 is not between 1 and 65535")]
    Buffers,
    /// [`InspectOptions::buffer_bytes`] is out of range.
    #[error("buffer_bytes: {0} is not between 512 and 65536")]
    BufferBytes(u32),
    /// [`InspectOptions::names`] is out of range.
    #[error("names: {0} is more than 16777216")]
    Names(u32),
}

impl InspectOptions {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns the first value that is out of range.
    pub fn validate(&self) -> Result<(), OptionError> {
        if !(1..=15).contains(&self.payloads) {
            return Err(OptionError::Payloads(self.payloads));
        }
        if self.buffers == 0 {
            return Err(OptionError::Buffers);
        }
        if !(512..=65536).contains(&self.buffer_bytes) {
            return Err(OptionError::BufferBytes(self.buffer_bytes));
        }
        if self.names > 1 << 24 {
            return Err(OptionError::Names(self.names));
        }
        Ok(())
    }
}
