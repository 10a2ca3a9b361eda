//! The TOML form: packets as tables, each with its layers.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::{BuildError, Layer, Result, spec};

/// The largest file, in bytes.
const LARGEST: u64 = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    packet: Vec<Packet>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Packet {
    /// The text form.
    spec: Option<String>,
    #[serde(default)]
    layers: Vec<Table>,
}

/// Reads the packets' layers.
pub(super) fn read(path: &Path) -> Result<Vec<Vec<Layer>>> {
    let failed = |source| BuildError::Read {
        path: path.to_owned(),
        source,
    };
    // The length of a pipe or a device is not known in advance.
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    let read = file.take(LARGEST + 1).read_to_string(&mut text);
    if read.map_err(failed)? as u64 > LARGEST {
        return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
    }
    parse(&text, path)
}

/// Parses the layers of a file's text; `path` is for messages.
pub(super) fn parse(text: &str, path: &Path) -> Result<Vec<Vec<Layer>>> {
    let document: Document = toml::from_str(text).map_err(|source| BuildError::File {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    let packets = document.packet.into_iter().map(|packet| match packet.spec {
        Some(text) if packet.layers.is_empty() => spec::parse(&text),
        Some(_) => Err(BuildError::Place {
            layer: "packet".to_owned(),
            what: "it has either spec or layers",
        }),
        None => packet.layers.into_iter().map(layer).collect(),
    });
    packets.collect()
}

/// Parses a layer's table: its `type`, and fields as in the text form; or `payload` alone.
fn layer(table: Table) -> Result<Layer> {
    let mut layer = Layer::default();
    for (key, value) in table {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Boolean(flag) => u8::from(*flag).to_string(),
            _ => {
                return Err(BuildError::Value {
                    layer: layer.name,
                    field: key,
                    value: format!("a TOML {}", value.type_str()),
                    expected: "a text, a whole number, or true or false",
                });
            }
        };
        match key.as_str() {
            "type" if layer.name.is_empty() && value.is_str() => layer.name = text,
            "payload" => layer.data = Some(text.into_bytes()),
            _ => layer.fields.push((key, text)),
        }
    }
    if layer.data.is_some() && !(layer.name.is_empty() && layer.fields.is_empty()) {
        return Err(BuildError::Place {
            layer: "payload".to_owned(),
            what: "a payload is a layer of its own",
        });
    }
    Ok(layer)
}
