//! ClientHello and ServerHello (RFC 8446, section 4.1), read leniently: what stands before a
//! contradiction counts.

use ringtap_packet::bytes::{be16, byte};

use super::is_grease;

/// Kinds of extensions.
pub(crate) const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
pub(crate) const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// A list of 16-bit numbers in network byte order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = u16> + 'a {
        self.0
            .chunks_exact(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
    }

    /// Returns the numbers without those that clients send to keep servers tolerant.
    pub(crate) fn meant(self) -> impl Iterator<Item = u16> + 'a {
        self.iter().filter(|number| !is_grease(*number))
    }
}

/// The parts of a ClientHello that are of use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientHello<'a> {
    /// The version in front, which TLS 1.3 does not use.
    pub(crate) legacy_version: u16,
    pub(crate) ciphers: Numbers<'a>,
    /// The block of extensions.
    extensions: &'a [u8],
    pub(crate) sni: Option<&'a [u8]>,
    /// The first protocol offered.
    pub(crate) alpn: Option<&'a [u8]>,
    pub(crate) signatures: Numbers<'a>,
    pub(crate) versions: Option<Numbers<'a>>,
}

impl<'a> ClientHello<'a> {
    /// Reads the body of a message; of DTLS there is a cookie in it.
    pub(crate) fn parse(body: &'a [u8], is_dtls: bool) -> Option<Self> {
        let legacy_version = be16(body, 0)?;
        let (_, mut rest) = short_vector(body.get(34..)?)?;
        if is_dtls {
            (_, rest) = short_vector(rest)?;
        }
        let (ciphers, rest) = vector(rest)?;
        let extensions = short_vector(rest).and_then(|(_, rest)| vector(rest));
        let mut hello = Self {
            legacy_version,
            ciphers: Numbers(ciphers),
            extensions: extensions.map_or(&[], |(extensions, _)| extensions),
            ..Self::default()
        };
        for (kind, content) in Extensions(hello.extensions) {
            match kind {
                SERVER_NAME => hello.sni = hello.sni.or_else(|| server_name(content)),
                ALPN => hello.alpn = hello.alpn.or_else(|| first_protocol(content)),
                SIGNATURE_ALGORITHMS => {
                    hello.signatures = Numbers(vector(content).map_or(&[], |(list, _)| list));
                }
                SUPPORTED_VERSIONS => {
                    hello.versions = short_vector(content).map(|(list, _)| Numbers(list));
                }
                _ => {}
            }
        }
        Some(hello)
    }

    /// Returns the kinds of its extensions, in their order.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = u16> + 'a {
        Extensions(self.extensions).map(|(kind, _)| kind)
    }

    /// Returns the highest version that the client offers.
    pub(crate) fn version(&self, is_dtls: bool) -> u16 {
        let offered = self.versions.iter().flat_map(|list| list.meant());
        // Versions of DTLS count downwards.
        let highest = if is_dtls {
            offered.min()
        } else {
            offered.max()
        };
        highest.unwrap_or(self.legacy_version)
    }
}

/// The parts of a ServerHello that are of use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerHello<'a> {
    pub(crate) version: u16,
    pub(crate) cipher: u16,
    pub(crate) alpn: Option<&'a [u8]>,
}

impl<'a> ServerHello<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        let (_, rest) = short_vector(body.get(34..)?)?;
        let mut hello = Self {
            version: be16(body, 0)?,
            cipher: be16(rest, 0)?,
            alpn: None,
        };
        let extensions = rest.get(3..).and_then(vector);
        for (kind, content) in Extensions(extensions.map_or(&[], |(list, _)| list)) {
            match kind {
                SUPPORTED_VERSIONS => hello.version = be16(content, 0).unwrap_or(hello.version),
                ALPN => hello.alpn = first_protocol(content),
                _ => {}
            }
        }
        Some(hello)
    }
}

/// Goes through a block of extensions; the last one may be cut off.
struct Extensions<'a>(&'a [u8]);

impl<'a> Iterator for Extensions<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = be16(self.0, 0)?;
        let (content, rest) = vector(&self.0[2..])?;
        self.0 = rest;
        Some((kind, content))
    }
}

/// Splits off what a length of two bytes counts, or what there is of it.
fn vector(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(be16(data, 0)?);
    let rest = &data[2..];
    Some(rest.split_at(len.min(rest.len())))
}

/// Splits off what a length of one byte counts.
fn short_vector(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(byte(data, 0)?);
    data[1..].split_at_checked(len)
}

/// Returns the host name in the extension (RFC 6066, section 3).
fn server_name(content: &[u8]) -> Option<&[u8]> {
    const HOST_NAME: u8 = 0;
    let (list, _) = vector(content)?;
    match list.split_first()? {
        (&HOST_NAME, rest) => vector(rest).map(|(name, _)| name),
        _ => None,
    }
}

/// Returns the first protocol in the extension (RFC 7301).
fn first_protocol(content: &[u8]) -> Option<&[u8]> {
    let (list, _) = vector(content)?;
    short_vector(list).map(|(protocol, _)| protocol)
}
