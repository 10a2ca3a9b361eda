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

/// A layer as described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) fields: Vec<(String, String)>,
    /// Bytes as they are.
    pub(super) data: Option<Vec<u8>>,
}

/// Packets as described, built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Built(pub(crate) Vec<Vec<u8>>);

/// A description that cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        source: Box<toml::de::Error>,
    },
    #[error("packet {number}: {error}")]
    Packet {
        number: usize,
        error: Box<BuildError>,
    },
    #[error("at character {at}: expected {expected}")]
    Syntax { at: usize, expected: &'static str },
    #[error("a description without layers")]
    Empty,
    #[error("there is no layer {name:?}; there are {}", frame::NAMES.join(", "))]
    Layer { name: String },
    #[error("{layer} has no field {field:?}; it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Field {
        layer: String,
        field: String,
        known: Vec<&'static str>,
    },
    #[error("{layer}: {field} is {value:?}, expected {expected}")]
    Value {
        layer: String,
        field: String,
        value: String,
        expected: &'static str,
    },
    #[error("{layer}: {what}")]
    Place { layer: String, what: &'static str },
    #[error("{layer} with what is behind it has {len} bytes, more than {most}")]
    TooLong {
        layer: String,
        len: usize,
        most: usize,
    },
}

impl FromStr for Built {
    type Err = BuildError;

    /// A name that ends in `.toml` is that of a file.
    fn from_str(text: &str) -> Result<Self, BuildError> {
        if !text.ends_with(".toml") {
            return Ok(Self(vec![frame::build(&spec::parse(text)?)?]));
        }
        let packets = file::read(Path::new(text))?;
        let frames = (0..).zip(&packets).map(|(number, layers)| {
            frame::build(layers).map_err(|error| BuildError::Packet {
                number,
                error: Box::new(error),
            })
        });
        Ok(Self(frames.collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests;
