//! Converts the library's fields to element numbers and bytes.

use std::collections::HashMap;
use std::sync::LazyLock;

use netflow_parser::{FieldValue, IpfixField, V9Field};
use ringtap_flow::export::REVERSE_PEN;

/// The end of the assigned elements in IANA's registry.
const LAST_ELEMENT: u16 = 600;

/// An information element: its number and private enterprise number (0 for IANA's registry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) id: u16,
    pub(super) enterprise: u32,
}

/// Element numbers by the library's names. The library does not return the numbers itself.
static NUMBERS: LazyLock<HashMap<IpfixField, Number>> = LazyLock::new(|| {
    let of = |id, enterprise: Option<u32>| {
        let number = Number {
            id,
            enterprise: enterprise.unwrap_or(0),
        };
        (IpfixField::new(id, enterprise), number)
    };
    let ids = 1..=LAST_ELEMENT;
    ids.flat_map(|id| [of(id, None), of(id, Some(REVERSE_PEN))])
        .collect()
});

/// A field of the library.
pub(super) trait Field {
    /// Returns the number of its element, if it is used here.
    fn number(&self) -> Option<Number>;
}

impl Field for IpfixField {
    fn number(&self) -> Option<Number> {
        match *self {
            Self::Enterprise {
                enterprise_number,
                field_number,
            } => Some(Number {
                id: field_number,
                enterprise: enterprise_number,
            }),
            _ => NUMBERS.get(self).copied(),
        }
    }
}

/// IANA's registry for IPFIX includes the fields of NetFlow v9.
impl Field for V9Field {
    fn number(&self) -> Option<Number> {
        Some(Number {
            id: (*self).into(),
            enterprise: 0,
        })
    }
}

/// Returns the bytes of a value as they came, in `buffer`.
pub(super) fn bytes<'a>(value: &FieldValue, buffer: &'a mut Vec<u8>) -> &'a [u8] {
    buffer.clear();
    if value.write_be_bytes(buffer).is_err() {
        buffer.clear();
    }
    buffer
}

/// Returns an unsigned number of up to 8 bytes. Exporters may shorten numbers (RFC 7011, section 6.2).
pub(super) fn unsigned(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    let number = bytes
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for (id, enterprise) in [(1, None), (152, None), (507, None), (2, Some(29_305))] {
            let field = IpfixField::new(id, enterprise);
            let expected = Number {
                id,
                enterprise: enterprise.unwrap_or(0),
            };
            assert_eq!(field.number(), Some(expected));
        }
        let ntop = IpfixField::new(123, Some(35_632));
        let number = ntop.number().unwrap();
        assert_eq!((number.id, number.enterprise), (123, 35_632));
        let number = V9Field::from(22).number().unwrap();
        assert_eq!(number.id, 22);
    }

    #[test]
    fn numbers_may_be_short() {
        assert_eq!(unsigned(&[1, 2]), Some(0x0102));
        assert_eq!(unsigned(&[0xff; 8]), Some(u64::MAX));
        assert_eq!(unsigned(&[]), None);
        assert_eq!(unsigned(&[0; 9]), None);
    }
}
