//! The common form of the databases in `/etc`: a name, a value, aliases, comments after `#`.
//!
//! Lines are bytes, because comments and aliases come in any encoding. One that does not have its
//! form is passed over, as the C library does.

use super::Service;

/// One line without its comment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a>(&'a [u8]);

/// The lines of a database that hold anything.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
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
    fn fields(self) -> impl Iterator<Item = &'a [u8]> {
        self.0
            .split(u8::is_ascii_whitespace)
            .filter(|field| !field.is_empty())
    }

    /// The first field.
    pub(super) fn name(self) -> Option<&'a str> {
        std::str::from_utf8(self.fields().next()?).ok()
    }

    /// The second field.
    pub(super) fn value(self) -> Option<&'a str> {
        std::str::from_utf8(self.fields().nth(1)?).ok()
    }

    /// Whether the first field or one behind the second is `name`.
    pub(super) fn is_called(self, name: &str) -> bool {
        let mut names = self.fields().enumerate().filter(|(at, _)| *at != 1);
        names.any(|(_, field)| field == name.as_bytes())
    }
}

/// `80/tcp` (services(5)).
pub(super) fn service(value: &str) -> Option<Service> {
    let (port, protocol) = value.split_once('/')?;
    if protocol.is_empty() {
        return None;
    }
    Some(Service {
        port: number(port)?,
        protocol: protocol.to_ascii_lowercase(),
    })
}

/// A decimal number without a sign.
pub(super) fn number<T: std::str::FromStr>(value: &str) -> Option<T> {
    // FromStr takes a plus sign, which these files do not know.
    if value.starts_with('+') {
        None
    } else {
        value.parse().ok()
    }
}

/// One to four numbers with dots between, aligned right as inet_network(3) does it.
pub(super) fn network_number(value: &str) -> Option<u32> {
    let mut network = 0;
    let mut parts = 0;
    for part in value.split('.') {
        let byte: u8 = number(part)?;
        network = network << 8 | u32::from(byte);
        parts += 1;
    }
    (parts <= 4).then_some(network)
}

/// Six hexadecimal numbers with colons between, of one or two digits each (ethers(5)).
pub(super) fn ethernet_address(value: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = value.split(':');
    for byte in &mut address {
        let part = parts.next()?;
        let is_form = matches!(part.len(), 1 | 2) && !part.starts_with('+');
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| is_form)?;
    }
    parts.next().is_none().then_some(address)
}
