//! The fields of a flow, as a record has them.

use std::fmt;

use crate::escape::digits;
use crate::protocol::{NameSource, Protocol};

/// Text from the network, printable ([`escape`](crate::escape())).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    pub(crate) text: &'a str,
    pub(crate) cut: bool,
}

impl<'a> Text<'a> {
    /// Returns the text: printable UTF-8.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// Returns whether the end is missing, because the entry had no room or the capture did not have it.
    #[must_use]
    pub fn is_cut(self) -> bool {
        self.cut
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.text)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}{}", self.text, if self.cut { "…" } else { "" })
    }
}

/// The JA4 fingerprint of a TLS client: 36 characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ja4(pub(crate) [u8; Self::LEN]);

impl Ja4 {
    /// Characters of a fingerprint.
    pub const LEN: usize = 36;
    /// Bytes of a fingerprint in an entry: 10 characters, two hashes of 6 bytes.
    pub(crate) const PACKED: usize = 22;

    /// Returns the fingerprint's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Puts a fingerprint together from its first part and its two hashes.
    pub(crate) fn unpack(packed: &[u8; Self::PACKED]) -> Self {
        let mut text = [b'_'; Self::LEN];
        let (first, hashes) = packed.split_at(10);
        for (to, from) in text.iter_mut().zip(first) {
            *to = if from.is_ascii_graphic() { *from } else { b'?' };
        }
        for (index, byte) in hashes.iter().enumerate() {
            let at = if index < 6 { 11 } else { 12 } + 2 * index;
            text[at..at + 2].copy_from_slice(&digits(*byte));
        }
        Self(text)
    }

    /// Returns the fingerprint with this text, or `None` if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let ja4 = Self(text.as_bytes().try_into().ok()?);
        let is_same = |packed| Self::unpack(&packed) == ja4;
        ja4.pack().is_some_and(is_same).then_some(ja4)
    }

    /// Takes a fingerprint apart, as [`Ja4::unpack`] puts it together.
    pub(crate) fn pack(&self) -> Option<[u8; Self::PACKED]> {
        let digit = |at: usize| char::from(self.0[at]).to_digit(16);
        let mut packed = [0; Self::PACKED];
        let (first, hashes) = packed.split_at_mut(10);
        first.copy_from_slice(self.0.first_chunk::<10>()?);
        for (index, byte) in hashes.iter_mut().enumerate() {
            let at = if index < 6 { 11 } else { 12 } + 2 * index;
            *byte = u8::try_from(digit(at)? << 4 | digit(at + 1)?).ok()?;
        }
        Some(packed)
    }
}

impl fmt::Display for Ja4 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl fmt::Debug for Ja4 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The content of an [`Entry`](crate::Entry), field by field. A field is `None` if the flow did not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fields<'a> {
    /// The protocol that the payloads have.
    pub protocol: Option<Protocol>,
    /// The flow's name: see [`NameSource`].
    pub name: Option<Text<'a>>,
    /// Where the name comes from.
    pub name_source: Option<NameSource>,
    /// The name in the first question: of DNS, multicast DNS, LLMNR and the NetBIOS name service.
    pub dns_name: Option<Text<'a>>,
    /// The type of the first question.
    pub dns_type: Option<u16>,
    /// The response code of the first answer.
    pub dns_rcode: Option<u8>,
    /// The number of answers in it.
    pub dns_answers: Option<u16>,
    /// The time from the first question to its answer, in nanoseconds.
    pub dns_latency_ns: Option<u64>,
    /// The server name in the ClientHello, of TLS and QUIC.
    pub tls_sni: Option<Text<'a>>,
    /// The application protocol: the server's choice where it can be read, else the client's first offer.
    pub tls_alpn: Option<Text<'a>>,
    /// The version that the server chose, else the highest that the client offers: 0x0304 is TLS 1.3.
    pub tls_version: Option<u16>,
    /// The cipher suite that the server chose.
    pub tls_cipher: Option<u16>,
    /// The fingerprint of the client.
    pub tls_ja4: Option<Ja4>,
    /// The version in the first long header.
    pub quic_version: Option<u32>,
    /// The host of the first request.
    pub http_host: Option<Text<'a>>,
    /// The method of the first request.
    pub http_method: Option<Text<'a>>,
    /// The target of the first request.
    pub http_path: Option<Text<'a>>,
    /// The status of the first response.
    pub http_status: Option<u16>,
    /// The user agent of the first request.
    pub http_user_agent: Option<Text<'a>>,
    /// The client's first line, such as `SSH-2.0-OpenSSH_9.2`.
    pub client_banner: Option<Text<'a>>,
    /// The server's first line or its version: of SSH, SMTP, FTP, POP3, IMAP, MySQL.
    pub server_banner: Option<Text<'a>>,
    /// The host name that the DHCP client reports.
    pub dhcp_host: Option<Text<'a>>,
    /// The vendor class that the DHCP client reports.
    pub dhcp_vendor: Option<Text<'a>>,
    /// The stratum of the time server.
    pub ntp_stratum: Option<u8>,
    /// The method of the first STUN message: 1 is Binding.
    pub stun_method: Option<u16>,
    /// The payload type of the first RTP packet.
    pub rtp_payload_type: Option<u8>,
    /// The synchronisation source of the first RTP packet.
    pub rtp_ssrc: Option<u32>,
    /// The client identifier of an MQTT connection.
    pub mqtt_client_id: Option<Text<'a>>,
    /// The user in the cookie of an RDP connection request.
    pub rdp_cookie: Option<Text<'a>>,
}

impl<'a> Fields<'a> {
    /// Returns the text of a protocol that is the source of names; `None` for DNS.
    pub(crate) fn text_of(&self, source: NameSource) -> Option<Text<'a>> {
        match source {
            NameSource::Sni | NameSource::Quic => self.tls_sni,
            NameSource::Http => self.http_host,
            NameSource::Dhcp => self.dhcp_host,
            NameSource::Mdns | NameSource::Nbns | NameSource::Llmnr => self.dns_name,
            NameSource::Dns => None,
        }
    }
}
