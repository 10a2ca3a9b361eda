//! Packets built from a description: `eth/ipv4(dst=10.0.0.2)/udp(dport=53)/"payload"`, or a TOML file.
//!
//! Data in: layers with their fields as text ([`spec`], [`file`]). Data out: frames, with lengths, types
//! and checksums filled in where the description leaves them open ([`frame`]).

mod field;
mod file;
mod frame;
mod spec;

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of all packets of a file at most.
const MOST_BYTES: usize = 256 << 20;

/// A layer as described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) fields: Vec<(String, String)>,
    /// Bytes as they are.
    pub(super) data: Option<Vec<u8>>,
}

/// Packets as described, built. The text is that of one packet, or names a TOML file of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built(
    /// From the first byte on of their first layer.
    pub Vec<Vec<u8>>,
);

/// A description that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Its name.
        path: PathBuf,
        /// Why.
        r#source: std::io::Error,
    },
    /// A file is no TOML, or has other tables than it should.
    #[error("{}: {source}", path.display())]
    File {
        /// Its name.
        path: PathBuf,
        /// Where and why.
        r#source: Box<toml::de::Error>,
    },
    /// One of a file's packets.
    #[error("packet {number}: {error}")]
    Packet {
        /// From 0.
        number: usize,
        /// What is wrong with it.
        error: Box<BuildError>,
    },
    /// The text breaks off or goes on with something else.
    #[error("at character {at}: expected {expected}")]
    Syntax {
        /// From 1.
        at: usize,
        /// What would be right.
        expected: &'static str,
    },
    /// Nothing is described.
    #[error("a description without layers")]
    Empty,
    /// There is no such layer.
    #[error("{place}: there is no layer {name:?}; {}", instead_of(name))]
    Layer {
        /// Where: its character in a text, or its number in a file.
        place: String,
        /// As given.
        name: String,
    },
    /// The layer has no such field.
    #[error("{layer} has no field {field:?}; it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Field {
        /// Its name.
        layer: String,
        /// As given.
        field: String,
        /// Those that it has.
        known: Vec<&'static str>,
    },
    /// The field has no such value.
    #[error("{layer}: {field} is {value:?}, expected {expected}")]
    Value {
        /// Its name.
        layer: String,
        /// As given.
        field: String,
        /// As given.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The layer cannot stand there.
    #[error("{layer}: {what}")]
    Place {
        /// Its name.
        layer: String,
        /// Why not.
        what: &'static str,
    },
    /// A short text may stand for long packets, and a file for many of them.
    #[error("packet {number}: with those before it more than {MOST_BYTES} bytes")]
    TooMuch {
        /// From 0.
        number: usize,
    },
    /// The packet is longer than its lengths can say.
    #[error("{layer} with what is behind it has {len} bytes, more than {most}")]
    TooLong {
        /// Its name.
        layer: String,
        /// So many bytes.
        len: usize,
        /// The most that it may have.
        most: usize,
    },
}

/// What to write in the place of a layer that there is not.
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
    /// Builds the packets of a TOML file's text; its name is for messages.
    ///
    /// # Errors
    /// It is no TOML; one of its packets cannot be built.
    pub fn from_toml(text: &str, name: &Path) -> Result<Self, BuildError> {
        Self::of(&file::parse(text, name)?)
    }

    fn of(packets: &[Vec<Layer>]) -> Result<Self, BuildError> {
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

    /// A name that ends in `.toml` is that of a file.
    fn from_str(text: &str) -> Result<Self, BuildError> {
        if text.ends_with(".toml") {
            return Self::of(&file::read(Path::new(text))?);
        }
        Ok(Self(vec![frame::build(&spec::parse(text)?)?]))
    }
}

#[cfg(test)]
mod tests;
