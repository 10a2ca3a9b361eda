//! An entry: what is known of a flow, packed into a fixed size.
//!
//! Fields are packed one after the other, each with its tag, its length and its bytes. Text is escaped
//! when it enters, so that what comes out is printable whoever sent it.

use std::fmt::{self, Write};

use crate::escape::escape;
use crate::fields::{Fields, Ja4, Text};
use crate::protocol::{NameSource, Protocol};

/// Bytes for packed fields.
const ROOM: usize = 188;
/// Bytes of a field's tag and length.
const HEAD: usize = 2;
/// The bit of a tag that marks text whose end is missing.
const CUT: u8 = 0x80;

/// The kind of a packed field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    /// A name from the passive table.
    Name = 1,
    DnsName,
    /// Type.
    DnsQuestion,
    /// Response code, number of answers.
    DnsAnswer,
    /// When the first question was asked, and its identifier: until its answer comes.
    DnsAsked,
    DnsLatency,
    Sni,
    Alpn,
    /// The server's choice.
    ServerAlpn,
    TlsVersion,
    Cipher,
    Ja4,
    QuicVersion,
    Host,
    Method,
    Path,
    Status,
    Agent,
    ClientBanner,
    ServerBanner,
    DhcpHost,
    DhcpVendor,
    Stratum,
    Stun,
    /// Payload type, synchronisation source.
    Rtp,
    MqttClient,
    RdpCookie,
}

/// The content of one flow's payloads: plain data of 192 bytes, for a pool of the caller.
///
/// A flow whose entry [`is_empty`](Self::is_empty) needs none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    head: EntryHead,
    packed: [u8; ROOM],
}

/// An entry without its packed fields: 4 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryHead {
    protocol: Option<Protocol>,
    name_source: Option<NameSource>,
    cut: bool,
    used: u8,
}

const _: () = assert!(size_of::<Entry>() == 192);
const _: () = assert!(size_of::<EntryHead>() == 4);

impl EntryHead {
    /// Returns whether nothing was found so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.protocol.is_none() && self.used == 0
    }

    /// Returns whether the flow has a name.
    #[must_use]
    pub fn has_name(&self) -> bool {
        self.name_source.is_some()
    }

    /// Returns the number of bytes that the packed fields take, at most 188.
    #[must_use]
    pub fn packed_len(&self) -> usize {
        self.used.into()
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields().fmt(out)
    }
}

impl Entry {
    /// Returns an empty entry.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            head: EntryHead {
                protocol: None,
                name_source: None,
                cut: false,
                used: 0,
            },
            packed: [0; ROOM],
        }
    }

    /// Returns the entry that has this head and these packed fields, in pieces: what [`head`](Self::head) and
    /// [`packed`](Self::packed) returned. Bytes beyond the head's length are ignored.
    #[must_use]
    pub fn from_parts<'a>(head: EntryHead, pieces: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut entry = Self {
            head,
            packed: [0; ROOM],
        };
        let mut room = &mut entry.packed[..head.packed_len().min(ROOM)];
        for piece in pieces {
            let len = piece.len().min(room.len());
            let (place, rest) = room.split_at_mut(len);
            place.copy_from_slice(&piece[..len]);
            room = rest;
        }
        entry
    }

    /// Returns the entry without its packed fields.
    #[must_use]
    pub fn head(&self) -> EntryHead {
        self.head
    }

    /// Returns the packed fields.
    #[must_use]
    pub fn packed(&self) -> &[u8] {
        &self.packed[..self.head.packed_len()]
    }

    /// Returns whether nothing was found so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// Returns the protocol that the payloads have.
    #[must_use]
    pub fn protocol(&self) -> Option<Protocol> {
        self.head.protocol
    }

    /// Returns whether a field was cut or left out because the entry was full.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.head.cut
    }

    /// Returns the fields.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        let mut fields = Fields {
            protocol: self.head.protocol,
            ..Fields::default()
        };
        for (tag, bytes) in self.packed_fields() {
            let text = || {
                let cut = tag & CUT != 0;
                let text = str::from_utf8(bytes).ok()?;
                Some(Text { text, cut })
            };
            fill(&mut fields, tag & !CUT, bytes, text);
        }
        fields.name_source = self.head.name_source;
        fields.name = match self.head.name_source {
            Some(NameSource::Dns) | None => fields.name,
            Some(NameSource::Http) => fields.http_host.map(without_port),
            Some(source) => fields.text_of(source),
        };
        fields
    }

    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.head.protocol = Some(protocol);
    }

    /// Makes a field the flow's name, unless it has one.
    pub(crate) fn name_by(&mut self, source: NameSource) {
        self.head.name_source.get_or_insert(source);
    }

    pub(crate) fn has_name(&self) -> bool {
        self.head.name_source.is_some()
    }

    pub(crate) fn has(&self, tag: Tag) -> bool {
        self.find(tag).is_some()
    }

    /// Returns a field's bytes.
    pub(crate) fn find(&self, tag: Tag) -> Option<&[u8]> {
        let found = self.packed_fields().find(|(t, _)| t & !CUT == tag as u8);
        found.map(|(_, bytes)| bytes)
    }

    /// Returns the bytes that text of a further field can have.
    pub(crate) fn room(&self) -> usize {
        (ROOM - self.head.packed_len()).saturating_sub(HEAD)
    }

    /// Adds bytes of a fixed length. A field that is there stays as it is.
    pub(crate) fn put(&mut self, tag: Tag, bytes: &[u8]) {
        if self.has(tag) {
            return;
        }
        if bytes.len() > self.room() {
            self.head.cut = true;
            return;
        }
        let start = self.head.packed_len() + HEAD;
        self.packed[start..start + bytes.len()].copy_from_slice(bytes);
        self.close(tag as u8, bytes.len());
    }

    /// Adds text of at most `most` bytes after escaping; `whole` is whether `text` has its end. A field
    /// that is there stays as it is.
    pub(crate) fn put_text(&mut self, tag: Tag, text: &[u8], most: usize, whole: bool) {
        if self.has(tag) {
            return;
        }
        let room = self.room().min(most);
        if room == 0 {
            self.head.cut |= !text.is_empty();
            return;
        }
        self.write(tag, room, whole, |space| escape(text, space));
    }

    /// Adds text that is printable already.
    pub(crate) fn put_escaped(&mut self, tag: Tag, text: &str, most: usize) {
        if self.has(tag) {
            return;
        }
        let room = self.room().min(most).min(text.len());
        self.write(tag, room, true, |space| space.write_str(text));
    }

    /// Adds text of at most `room` bytes; `whole` is whether it has its end.
    fn write(
        &mut self,
        tag: Tag,
        room: usize,
        whole: bool,
        text: impl FnOnce(&mut Space<'_>) -> fmt::Result,
    ) {
        let start = self.head.packed_len() + HEAD;
        let mut space = Space {
            bytes: &mut self.packed[start..start + room],
            used: 0,
        };
        let fits = text(&mut space).is_ok();
        let used = space.used;
        self.head.cut |= !fits;
        let mark = if fits && whole { 0 } else { CUT };
        self.close(tag as u8 | mark, used);
    }

    /// Puts a value of the same length or less in the place of another field.
    pub(crate) fn replace(&mut self, old: Tag, new: Tag, bytes: &[u8]) {
        let mut at = 0;
        while let Some(&[tag, len]) = self.packed()[at..].first_chunk() {
            let end = at + HEAD + usize::from(len);
            if tag & !CUT != old as u8 {
                at = end;
                continue;
            }
            if bytes.len() <= usize::from(len) {
                self.packed[at] = new as u8;
                let place = &mut self.packed[at + HEAD..end];
                place[..bytes.len()].copy_from_slice(bytes);
                place[bytes.len()..].fill(0);
            }
            return;
        }
    }

    fn close(&mut self, tag: u8, len: usize) {
        // Both are below ROOM.
        let Ok(len) = u8::try_from(len) else { return };
        self.packed[self.head.packed_len()] = tag;
        self.packed[self.head.packed_len() + 1] = len;
        self.head.used += len + 2;
    }

    fn packed_fields(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = self.packed();
        std::iter::from_fn(move || {
            let (&[tag, len], behind) = rest.split_first_chunk()?;
            let (bytes, behind) = behind.split_at_checked(len.into())?;
            rest = behind;
            Some((tag, bytes))
        })
    }
}

/// Sets the field with this tag.
fn fill<'a>(
    fields: &mut Fields<'a>,
    tag: u8,
    bytes: &'a [u8],
    text: impl FnOnce() -> Option<Text<'a>>,
) {
    macro_rules! tags {
        ($($tag:ident => $set:expr,)*) => {
            match tag { $(tag if tag == Tag::$tag as u8 => $set,)* _ => {} }
        };
    }
    tags! {
        Name => fields.name = text(),
        DnsName => fields.dns_name = text(),
        DnsQuestion => fields.dns_type = number(bytes).map(u16::from_be_bytes),
        DnsAnswer => if let Some([code, more, less]) = number(bytes) {
            fields.dns_rcode = Some(code);
            fields.dns_answers = Some(u16::from_be_bytes([more, less]));
        },
        DnsLatency => fields.dns_latency_ns = number(bytes).map(u64::from_be_bytes),
        Sni => fields.tls_sni = text(),
        Alpn => fields.tls_alpn = fields.tls_alpn.or_else(text),
        ServerAlpn => fields.tls_alpn = text(),
        TlsVersion => fields.tls_version = number(bytes).map(u16::from_be_bytes),
        Cipher => fields.tls_cipher = number(bytes).map(u16::from_be_bytes),
        Ja4 => fields.tls_ja4 = number(bytes).map(|packed| Ja4::unpack(&packed)),
        QuicVersion => fields.quic_version = number(bytes).map(u32::from_be_bytes),
        Host => fields.http_host = text(),
        Method => fields.http_method = text(),
        Path => fields.http_path = text(),
        Status => fields.http_status = number(bytes).map(u16::from_be_bytes),
        Agent => fields.http_user_agent = text(),
        ClientBanner => fields.client_banner = text(),
        ServerBanner => fields.server_banner = text(),
        DhcpHost => fields.dhcp_host = text(),
        DhcpVendor => fields.dhcp_vendor = text(),
        Stratum => fields.ntp_stratum = bytes.first().copied(),
        Stun => fields.stun_method = number(bytes).map(u16::from_be_bytes),
        Rtp => if let Some((kind, source)) = bytes.split_first() {
            fields.rtp_payload_type = Some(*kind);
            fields.rtp_ssrc = number(source).map(u32::from_be_bytes);
        },
        MqttClient => fields.mqtt_client_id = text(),
        RdpCookie => fields.rdp_cookie = text(),
    }
}

fn number<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.first_chunk().copied()
}

/// Returns a host without its port.
fn without_port(host: Text<'_>) -> Text<'_> {
    match host.text.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            Text { text: name, ..host }
        }
        _ => host,
    }
}

/// Room for text. A character that does not fit ends it.
pub(crate) struct Space<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) used: usize,
}

impl Write for Space<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let place = self.bytes.get_mut(self.used..).ok_or(fmt::Error)?;
        // An escape, which is written as one piece, is left out whole.
        if text.starts_with('\\') && text.len() > place.len() {
            return Err(fmt::Error);
        }
        let len = text.len().min(place.len());
        let len = (0..=len).rev().find(|at| text.is_char_boundary(*at));
        let len = len.unwrap_or(0);
        place[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.used += len;
        if len == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}
