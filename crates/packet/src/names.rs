//! The databases of names in `/etc`: hosts(5), networks(5), services(5), protocols(5), ethers(5).
//! Each line has two fields, most also have aliases, and there may be a comment after `#`.
//!
//! Input: a file's bytes, because comments and aliases may have any encoding. Output: borrowed
//! fields, and the numbers in them. Other lines are skipped, as in the C library.

/// One line without its comment.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a>(&'a [u8]);

/// Returns the lines of a database that are not empty.
pub fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let end = line
            .iter()
            .position(|&byte| byte == b'#')
            .unwrap_or(line.len());
        let line = line[..end].trim_ascii();
        (!line.is_empty()).then_some(Line(line))
    })
}

impl<'a> Line<'a> {
    /// Returns all fields.
    pub fn fields(self) -> impl Iterator<Item = &'a [u8]> {
        self.0
            .split(u8::is_ascii_whitespace)
            .filter(|field| !field.is_empty())
    }

    /// Returns the first field: the name, but in hosts(5) and ethers(5) the address.
    #[must_use]
    pub fn first(self) -> Option<&'a str> {
        std::str::from_utf8(self.fields().next()?).ok()
    }

    /// Returns the second field: the number, but in hosts(5) and ethers(5) the name.
    #[must_use]
    pub fn second(self) -> Option<&'a str> {
        std::str::from_utf8(self.fields().nth(1)?).ok()
    }

    /// Returns the first field and those after the second: the name and its aliases.
    pub fn names(self) -> impl Iterator<Item = &'a [u8]> {
        let fields = self.fields().enumerate();
        fields.filter_map(|(at, field)| (at != 1).then_some(field))
    }
}

/// Reads the port and the protocol of a service, such as `80/tcp` (services(5)).
#[must_use]
pub fn service(value: &str) -> Option<(u16, &str)> {
    let (port, protocol) = value.split_once('/')?;
    let port = number(port)?;
    (!protocol.is_empty()).then_some((port, protocol))
}

/// Reads a decimal number without a sign.
#[must_use]
pub fn number<T: std::str::FromStr>(value: &str) -> Option<T> {
    // FromStr accepts a plus sign, which these files do not have.
    if value.starts_with('+') {
        None
    } else {
        value.parse().ok()
    }
}

/// Reads one to four numbers with dots between, aligned right as inet_network(3) does it: `127` is 0x7f.
#[must_use]
pub fn network_number(value: &str) -> Option<u32> {
    let mut network = 0;
    let mut parts = 0;
    for part in value.split('.') {
        let byte: u8 = number(part)?;
        network = network << 8 | u32::from(byte);
        parts += 1;
    }
    (parts <= 4).then_some(network)
}

/// Reads six hexadecimal numbers with colons between, of one or two digits each (ethers(5)).
#[must_use]
pub fn ethernet_address(value: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = value.split(':');
    for byte in &mut address {
        let part = parts.next()?;
        let is_form = matches!(part.len(), 1 | 2) && !part.starts_with('+');
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| is_form)?;
    }
    parts.next().is_none().then_some(address)
}
