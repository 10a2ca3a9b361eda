//! A layer's fields, taken one by one; remaining ones are unknown.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{BuildError, Layer, Result};
use crate::rewrite::Mac;

/// The fields of a layer that were not taken yet.
pub(super) struct Fields<'a> {
    layer: &'a Layer,
    taken: Vec<bool>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(layer: &'a Layer) -> Self {
        Self {
            taken: vec![false; layer.fields.len()],
            layer,
            known: Vec::new(),
        }
    }

    /// Returns the text of a field.
    pub(super) fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.known.push(name);
        let fields = self.layer.fields.iter();
        let at = fields.clone().position(|(field, _)| field == name)?;
        self.taken[at] = true;
        self.layer.fields.get(at).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a field, parsed by `parse`.
    pub(super) fn value<T>(
        &mut self,
        name: &'static str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong(name, text, expected)),
        }
    }

    pub(super) fn wrong(&self, field: &str, value: &str, expected: &'static str) -> BuildError {
        BuildError::Value {
            layer: self.layer.name.clone(),
            field: field.to_owned(),
            value: value.to_owned(),
            expected,
        }
    }

    /// Returns a number up to `most`, decimal or hexadecimal with 0x.
    pub(super) fn number(&mut self, name: &'static str, most: u32) -> Result<Option<u32>> {
        let parse = |text: &str| number(text).filter(|&number| number <= most);
        self.value(name, "a number that the field holds", parse)
    }

    pub(super) fn u8(&mut self, name: &'static str, default: u8) -> Result<u8> {
        let number = self.number(name, 0xff)?;
        Ok(number.map_or(default, |number| number.to_le_bytes()[0]))
    }

    pub(super) fn u16(&mut self, name: &'static str, default: u16) -> Result<u16> {
        Ok(self.some_u16(name)?.unwrap_or(default))
    }

    pub(super) fn some_u16(&mut self, name: &'static str) -> Result<Option<u16>> {
        let number = self.number(name, 0xffff)?;
        Ok(number.and_then(|number| u16::try_from(number).ok()))
    }

    pub(super) fn u32(&mut self, name: &'static str, default: u32) -> Result<u32> {
        Ok(self.number(name, u32::MAX)?.unwrap_or(default))
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool> {
        Ok(self.number(name, 1)? == Some(1))
    }

    pub(super) fn mac(&mut self, name: &'static str, default: [u8; 6]) -> Result<[u8; 6]> {
        let mac = self.value(name, "a MAC address", |text| text.parse::<Mac>().ok())?;
        Ok(mac.map_or(default, |mac| mac.0))
    }

    pub(super) fn ipv4(&mut self, name: &'static str, default: [u8; 4]) -> Result<[u8; 4]> {
        let parse = |text: &str| text.parse::<Ipv4Addr>().ok();
        let address = self.value(name, "an IPv4 address", parse)?;
        Ok(address.map_or(default, |address| address.octets()))
    }

    pub(super) fn ipv6(&mut self, name: &'static str, default: [u8; 16]) -> Result<[u8; 16]> {
        let parse = |text: &str| text.parse::<Ipv6Addr>().ok();
        let address = self.value(name, "an IPv6 address", parse)?;
        Ok(address.map_or(default, |address| address.octets()))
    }

    /// Returns bytes in hexadecimal.
    pub(super) fn hex(&mut self, name: &'static str) -> Result<Vec<u8>> {
        let bytes = self.value(name, "pairs of hexadecimal digits", hex)?;
        Ok(bytes.unwrap_or_default())
    }

    /// Reports an error if a field is left over.
    pub(super) fn end(self) -> Result<()> {
        let mut fields = self.layer.fields.iter().zip(&self.taken);
        match fields.find(|(_, taken)| !**taken) {
            None => Ok(()),
            Some(((field, value), _)) if self.known.contains(&field.as_str()) => {
                Err(self.wrong(field, value, "each field once"))
            }
            Some(((field, _), _)) => Err(BuildError::Field {
                layer: self.layer.name.clone(),
                field: field.clone(),
                known: self.known,
            }),
        }
    }
}

pub(super) fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u32::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => text.parse().ok().filter(|_| !text.starts_with('+')),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !matches!(byte, b' ' | b':'))
        .collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let pair = |pair: &[u8; 2]| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = digit(pair[0])? * 16 + digit(pair[1])?;
        u8::try_from(byte).ok()
    };
    pairs.iter().map(pair).collect()
}
