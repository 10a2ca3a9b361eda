//! An entry: what is known of a flow, packed into a fixed size.

use crate::fields::Fields;
use crate::protocol::{NameSource, Protocol};

/// Bytes for packed fields.
const ROOM: usize = 188;

/// What the payloads of one flow say: plain data of 192 bytes, for a pool of the caller.
///
/// A flow whose entry [`is_empty`](Self::is_empty) needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    protocol: Option<Protocol>,
    name_source: Option<NameSource>,
    flags: u8,
    used: u8,
    packed: [u8; ROOM],
}

const _: () = assert!(size_of::<Entry>() == 192);

impl Default for Entry {
    fn default() -> Self {
        Self::new()
    }
}

impl Entry {
    /// Returns an empty entry.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            protocol: None,
            name_source: None,
            flags: 0,
            used: 0,
            packed: [0; ROOM],
        }
    }

    /// Whether nothing was found so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.protocol.is_none() && self.used == 0
    }

    /// Returns the protocol that the payloads have.
    #[must_use]
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Whether a field was cut or left out because the entry was full.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.flags != 0
    }

    /// Returns the fields.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        Fields {
            protocol: self.protocol,
            name_source: self.name_source,
            ..Fields::default()
        }
    }
}
