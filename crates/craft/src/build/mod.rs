//! Builds packets from a description: `eth/ipv4(dst=10.0.0.2)/udp(dport=53)/"payload"`, or a TOML
//! file.
//!
//! Input: layers with their fields as text ([`spec`], [`mod@file`]). Output: frames; lengths, types and
//! checksums that the description omits are filled in ([`frame`]).

mod field;
mod file;
mod frame;
mod spec;

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The most bytes of all packets of a file.
const MOST_BYTES: usize = 256 << 20;

type Result<T, E = BuildError> = std::result::Result<T, E>;

/// A layer of a description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) fields: Vec<(String, String)>,
    /// Literal bytes.
    pub(super) data: Option<Vec<u8>>,
}

/// Packets built from a description. The text describes one packet, or names a TOML file of
/// packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built(
    /// The packets, from the first byte of their first layer.
    pub Vec<Vec<u8>>,
);

/// An error in a description.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file's name.
        path: PathBuf,
        /// The reason.
        r#source: std::io::Error,
    },
    /// A file is not valid TOML or has unexpected tables.
    #[error("{}: {source}", path.display())]
    File {
        /// The file's name.
        path: PathBuf,
        /// The place and the reason.
        r#source: Box<toml::de::Error>,
    },
    /// An error in one of a file's packets.
    #[error("packet {number}: {error}")]
    Packet {
        /// The packet's number, from 0.
        number: usize,
        /// The error.
        error: Box<BuildError>,
    },
    /// The text ends too early or continues with something else.
    #[error("at character {at}: expected {expected}")]
    Syntax {
        /// The character, from 1.
        at: usize,
        /// The expected text.
        expected: &'static str,
    },
    /// The description has no layers.
    #[error("the description has no layers")]
    Empty,
    /// An unknown layer.
    #[error("{place}: unknown layer {name:?}; {}", instead_of(name))]
    Layer {
        /// The place: its character in a text, or its number in a file.
        place: String,
        /// The given name.
        name: String,
    },
    /// The layer has no such field.
    #[error("{layer} has no field {field:?}; it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Field {
        /// The layer's name.
        layer: String,
        /// The given field.
        field: String,
        /// The fields that the layer has.
        known: Vec<&'static str>,
    },
    /// An invalid value of a field.
    #[error("{layer}: {field} is {value:?}, expected {expected}")]
    Value {
        /// The layer's name.
        layer: String,
        /// The field.
        field: String,
        /// The given value.
        value: String,
        /// The expected value.
        expected: &'static str,
    },
    /// The layer is not allowed at this place.
    #[error("{layer}: {what}")]
    Place {
        /// The layer's name.
        layer: String,
        /// The reason.
        what: &'static str,
    },
    /// The packets are too large: a short text may stand for long packets, and a file for many of
    /// them.
    #[error("packet {number}: with those before it more than {MOST_BYTES} bytes")]
    TooMuch {
        /// The packet's number, from 0.
        number: usize,
    },
    /// The packet is too long for its length fields.
    #[error("{layer} with its payload has {len} bytes, more than {most}")]
    TooLong {
        /// The layer's name.
        layer: String,
        /// The length in bytes.
        len: usize,
        /// The greatest valid length.
        most: usize,
    },
}

/// Returns the layer that an unknown name probably means.
fn instead_of(name: &str) -> String {
    let meant = match name.to_ascii_lowercase().as_str() {
        "ip" | "inet" => "ipv4 or ipv6",
        "ip4" => "ipv4",
        "ip6" | "inet6" => "ipv6",
        "ether" | "ethernet" => "eth",
        "dot1q" | "8021q" => "vlan",
        "dot1ad" => "qinq",
        "icmp6" => "icmpv6",
        "icmp4" | "icmpv4" => "icmp",
        "raw" | "payload" | "data" => "bytes in quotation marks or hex(0102)",
        _ => return format!("layers are {}", frame::NAMES.join(", ")),
    };
    format!("write {meant}")
}

impl Built {
    /// Builds the packets of a TOML file's text; `name` is for messages.
    ///
    /// # Errors
    /// Returns an error if it is not valid TOML or one of its packets cannot be built.
    pub fn from_toml(text: &str, name: &Path) -> Result<Self, BuildError> {
        Self::of(&file::parse(text, name)?)
    }

    fn of(packets: &[Vec<Layer>]) -> Result<Self> {
        let (mut frames, mut bytes) = (Vec::with_capacity(packets.len()), 0);
        for (number, layers) in packets.iter().enumerate() {
            let frame = frame::build(layers).map_err(|error| BuildError::Packet {
                number,
                error: Box::new(error),
            })?;
            bytes += frame.len();
            if bytes > MOST_BYTES {
                return Err(BuildError::TooMuch { number });
            }
            frames.push(frame);
        }
        Ok(Self(frames))
    }
}

impl FromStr for Built {
    type Err = BuildError;

    /// Parses a description; a name that ends in `.toml` is a file's.
    fn from_str(text: &str) -> Result<Self> {
        if text.ends_with(".toml") {
            return Self::of(&file::read(Path::new(text))?);
        }
        Ok(Self(vec![frame::build(&spec::parse(text)?)?]))
    }
}

#[cfg(test)]
mod tests;
