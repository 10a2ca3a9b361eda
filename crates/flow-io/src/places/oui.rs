//! Vendors of MAC addresses, from the files of Debian's ieee-data (`oui.txt`, `oui.csv`, `mam.csv`,
//! `oui36.csv`) or Wireshark's `manuf`.

use std::collections::HashMap;
use std::path::PathBuf;

use super::PlaceError;

/// The lengths of prefixes that IEEE assigns, in bits, the longest first.
const LENGTHS: [u32; 3] = [36, 28, 24];
/// The longest name that is kept, in characters.
const NAME_MAX: usize = 64;
/// Prefixes at most: IEEE has assigned a twentieth of that.
const PREFIXES_MAX: usize = 1 << 20;
/// The bit of a MAC address that says that no vendor has assigned it.
const LOCAL: u64 = 0x02 << 40;

#[derive(Debug)]
pub(super) struct Vendors {
    /// By prefix, whose other bits are 0, and its length.
    names: HashMap<(u64, u32), Box<str>>,
}

impl Vendors {
    pub(super) fn new(path: PathBuf, bytes: &[u8]) -> Result<Self, PlaceError> {
        let mut names = HashMap::new();
        for line in String::from_utf8_lossy(bytes).lines() {
            if names.len() == PREFIXES_MAX {
                break;
            }
            if let Some((prefix, length, name)) = parse(line) {
                let name: String = name.chars().filter(|c| !c.is_control()).collect();
                let name: String = name.trim().chars().take(NAME_MAX).collect();
                if !name.is_empty() {
                    names.insert((prefix, length), name.into_boxed_str());
                }
            }
        }
        if names.is_empty() {
            return Err(PlaceError::NoVendors { path });
        }
        Ok(Self { names })
    }

    /// Returns the vendor of an address; none of addresses that software made up.
    pub(super) fn of(&self, address: [u8; 6]) -> Option<&str> {
        let [a, b, c, d, e, f] = address;
        let address = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        if address & LOCAL != 0 {
            return None;
        }
        let named = |length| self.names.get(&(prefix(address, length), length));
        LENGTHS.into_iter().find_map(named).map(|name| &**name)
    }
}

/// The first bits of an address.
fn prefix(address: u64, length: u32) -> u64 {
    address & (u64::MAX << (48 - length)) & 0xffff_ffff_ffff
}

/// Returns prefix, length and name of a line of any of the formats.
fn parse(line: &str) -> Option<(u64, u32, String)> {
    if line.starts_with('#') {
        return None;
    }
    if let Some((number, name)) = line.split_once("(hex)") {
        return named(number.trim(), 24, name.trim());
    }
    if line.starts_with("MA-") || line.starts_with("CID,") {
        let mut fields = csv(line);
        let (_, number, name) = (fields.next()?, fields.next()?, fields.next()?);
        let length = u32::try_from(number.len()).ok()?.checked_mul(4)?;
        return named(&number, length, &name);
    }
    let mut fields = line.split('\t');
    let (number, short, long) = (fields.next()?.trim(), fields.next()?, fields.next());
    let (number, length) = match number.split_once('/') {
        Some((number, length)) => (number, length.parse().ok()?),
        None => (number, 24),
    };
    named(number, length, long.unwrap_or(short))
}

/// The prefix that a number in hexadecimal begins with.
fn named(number: &str, length: u32, name: &str) -> Option<(u64, u32, String)> {
    if !LENGTHS.contains(&length) {
        return None;
    }
    let digits: String = number
        .chars()
        .filter(|c| !matches!(c, ':' | '-' | '.'))
        .collect();
    let count = u32::try_from(digits.len()).ok()?;
    if !(6..=12).contains(&count) || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(&digits, 16).ok()?;
    Some((
        prefix(value << (48 - 4 * count), length),
        length,
        name.to_owned(),
    ))
}

/// The fields of a line of comma-separated values.
fn csv(line: &str) -> impl Iterator<Item = String> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut field = String::new();
        let mut quoted = false;
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' if quoted && characters.peek().is_some_and(|(_, next)| *next == '"') => {
                    field.push('"');
                    characters.next();
                }
                '"' => quoted = !quoted,
                ',' if !quoted => {
                    rest = text.get(at + 1..);
                    return Some(field);
                }
                _ => field.push(character),
            }
        }
        rest = None;
        Some(field)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vendors(text: &str) -> Vendors {
        Vendors::new(PathBuf::from("test"), text.as_bytes()).expect("vendors")
    }

    #[test]
    fn all_formats_are_read() {
        let text = "00-22-72   (hex)\t\tAmerican Micro-Fuel Device Corp.\r\n\
                    002272     (base 16)\t\tAmerican Micro-Fuel Device Corp.\r\n";
        assert_eq!(
            vendors(text).of([0, 0x22, 0x72, 1, 2, 3]),
            Some("American Micro-Fuel Device Corp.")
        );
        let text = "Registry,Assignment,Organization Name,Organization Address\n\
                    MA-L,002272,\"Fuel, \"\"Micro\"\"\",\"2181 Road, US\"\n\
                    MA-M,00227254,Medium,Here\nMA-M,0022725,Medium,Here\n\
                    MA-S,002272678,Small,Here\n";
        let vendors_of_csv = vendors(text);
        assert_eq!(
            vendors_of_csv.of([0, 0x22, 0x72, 0, 0, 0]),
            Some("Fuel, \"Micro\"")
        );
        assert_eq!(
            vendors_of_csv.of([0, 0x22, 0x72, 0x5f, 0, 0]),
            Some("Medium")
        );
        assert_eq!(
            vendors_of_csv.of([0, 0x22, 0x72, 0x67, 0x8f, 1]),
            Some("Small")
        );
        let text = "# comment\n00:00:0C\tCisco\tCisco Systems, Inc\n\
                    00:1B:C5:00:10:00/36\tOpenRBco\tOpenRB.com\n00:00:0D\tShort\n";
        let manuf = vendors(text);
        assert_eq!(manuf.of([0, 0, 0x0c, 9, 9, 9]), Some("Cisco Systems, Inc"));
        assert_eq!(manuf.of([0, 0x1b, 0xc5, 0, 0x1f, 9]), Some("OpenRB.com"));
        assert_eq!(manuf.of([0, 0, 0x0d, 9, 9, 9]), Some("Short"));
        assert_eq!(manuf.of([0, 0, 0x0e, 9, 9, 9]), None);
        // A local address is nobody's, whatever its first bytes.
        assert_eq!(manuf.of([2, 0, 0x0c, 9, 9, 9]), None);
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "",
            "#\n",
            "a\tb\n",
            "\u{0}\u{1}",
            "MA-L,zzzzzz,x\n",
            "MA-L,0022\n",
        ] {
            let result = Vendors::new(PathBuf::from("test"), text.as_bytes());
            assert!(
                matches!(result, Err(PlaceError::NoVendors { .. })),
                "{text:?}"
            );
        }
    }
}
