//! The text form: layers between slashes, fields in brackets, bytes in quotation marks.

use super::frame::{NAMES, unknown};
use super::{BuildError, Layer, Result};

/// Splits a description into its layers.
pub(super) fn parse(text: &str) -> Result<Vec<Layer>> {
    let mut parser = Parser { text, at: 0 };
    let mut layers = Vec::new();
    loop {
        parser.skip_space();
        if parser.rest().is_empty() {
            break;
        }
        layers.push(parser.layer()?);
        parser.skip_space();
        if parser.rest().is_empty() {
            break;
        }
        parser.expect('/', "/ and another layer")?;
    }
    if layers.is_empty() {
        return Err(BuildError::Empty);
    }
    Ok(layers)
}

struct Parser<'a> {
    text: &'a str,
    /// The position in bytes.
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn error<T>(&self, expected: &'static str) -> Result<T> {
        let at = self.position();
        Err(BuildError::Syntax { at, expected })
    }

    /// Returns the number of the next character, from 1.
    fn position(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn expect(&mut self, wanted: char, expected: &'static str) -> Result<()> {
        self.skip_space();
        if !self.rest().starts_with(wanted) {
            return self.error(expected);
        }
        self.at += wanted.len_utf8();
        Ok(())
    }

    fn layer(&mut self) -> Result<Layer> {
        if self.rest().starts_with('"') {
            return Ok(Layer {
                data: Some(self.quoted()?),
                ..Layer::default()
            });
        }
        let begin = self.position();
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            return self.error("a layer such as ipv4, or bytes in quotation marks");
        }
        let mut layer = Layer {
            name: name.to_owned(),
            ..Layer::default()
        };
        if !NAMES.contains(&name) {
            return Err(unknown(&layer, format!("at character {begin}")));
        }
        self.skip_space();
        if self.rest().starts_with('(') {
            self.at += 1;
            self.fields(&mut layer)?;
        }
        Ok(layer)
    }

    fn fields(&mut self, layer: &mut Layer) -> Result<()> {
        loop {
            self.skip_space();
            if self.rest().starts_with(')') {
                self.at += 1;
                return Ok(());
            }
            let first = self.word(|c| !matches!(c, ',' | ')' | '=' | '('));
            if first.trim().is_empty() {
                return self.error("a field such as dst=10.0.0.2, or )");
            }
            let field = if self.rest().starts_with('=') {
                self.at += 1;
                let value = self.word(|c| !matches!(c, ',' | ')' | '('));
                (first.trim().to_owned(), value.trim().to_owned())
            } else {
                // A value without a name, as in hex(0102).
                (String::new(), first.trim().to_owned())
            };
            layer.fields.push(field);
            self.skip_space();
            if self.rest().starts_with(',') {
                self.at += 1;
            } else if !self.rest().starts_with(')') {
                return self.error("a comma or )");
            }
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Parses bytes in quotation marks; `\n`, `\r`, `\t`, `\\`, `\"` and `\x41` stand for one byte.
    fn quoted(&mut self) -> Result<Vec<u8>> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return self.error("a closing quotation mark");
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(bytes),
                '\\' => bytes.push(self.escaped()?),
                c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
    }

    fn escaped(&mut self) -> Result<u8> {
        let expected = "n, r, t, \\, \" or x and two hexadecimal digits";
        let Some(c) = self.rest().chars().next() else {
            return self.error(expected);
        };
        let byte = match c {
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            '\\' | '"' => c.to_string().as_bytes()[0],
            'x' => {
                let digits = self.rest().get(1..3);
                let digits = digits.filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
                let Some(byte) = digits.and_then(|text| u8::from_str_radix(text, 16).ok()) else {
                    return self.error(expected);
                };
                self.at += 2;
                byte
            }
            _ => return self.error(expected),
        };
        self.at += 1;
        Ok(byte)
    }
}
