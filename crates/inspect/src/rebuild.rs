//! Entries that are made of fields: of a name from the passive table, and of a record that somebody else
//! has exported.

use crate::entry::{Entry, Tag};
use crate::escape::is_printable;
use crate::fields::{Fields, Text};
use crate::protocol::NameSource;

/// The longest text, in bytes; the entry's room cuts it further.
const LONGEST: usize = 255;

impl Entry {
    /// Names the flow by an answer of DNS, unless it has a name: see
    /// [`Inspector::name_of`](crate::Inspector::name_of).
    pub fn set_dns_name(&mut self, name: &str) {
        if !self.has_name() && self.room() > 0 {
            self.put_escaped(Tag::Name, name, LONGEST);
            self.name_by(NameSource::Dns);
        }
    }

    /// Returns the entry that has these fields, as far as it has room: names first. Text that is not
    /// printable is escaped.
    #[must_use]
    pub fn of(fields: &Fields<'_>) -> Self {
        let mut entry = Self::new();
        if let Some(protocol) = fields.protocol {
            entry.set_protocol(protocol);
        }
        entry.add_texts(&[
            (Tag::DnsName, fields.dns_name),
            (Tag::Sni, fields.tls_sni),
            (Tag::Host, fields.http_host),
            (Tag::DhcpHost, fields.dhcp_host),
        ]);
        entry.add_numbers(fields);
        entry.add_texts(&[
            (Tag::Alpn, fields.tls_alpn),
            (Tag::Method, fields.http_method),
            (Tag::Path, fields.http_path),
            (Tag::Agent, fields.http_user_agent),
            (Tag::ClientBanner, fields.client_banner),
            (Tag::ServerBanner, fields.server_banner),
            (Tag::DhcpVendor, fields.dhcp_vendor),
            (Tag::MqttClient, fields.mqtt_client_id),
            (Tag::RdpCookie, fields.rdp_cookie),
        ]);
        // Those of protocols are where the protocol's name is.
        let source = fields.name_source;
        let named = source.filter(|source| fields.text_of(*source).is_some());
        match (named, fields.name) {
            (Some(source), _) => entry.name_by(source),
            (None, Some(name)) if entry.room() > 0 => {
                entry.add_texts(&[(Tag::Name, Some(name))]);
                entry.name_by(NameSource::Dns);
            }
            _ => {}
        }
        entry
    }

    fn add_texts(&mut self, texts: &[(Tag, Option<Text<'_>>)]) {
        for &(tag, text) in texts {
            let Some(text) = text else { continue };
            if text.as_str().chars().all(is_printable) {
                self.put_escaped(tag, text.as_str(), LONGEST);
            } else {
                self.put_text(tag, text.as_str().as_bytes(), LONGEST, true);
            }
        }
    }

    fn add_number<const N: usize>(&mut self, tag: Tag, bytes: Option<[u8; N]>) {
        if let Some(bytes) = bytes {
            self.put(tag, &bytes);
        }
    }

    fn add_numbers(&mut self, fields: &Fields<'_>) {
        self.add_number(Tag::DnsQuestion, fields.dns_type.map(u16::to_be_bytes));
        if fields.dns_rcode.is_some() || fields.dns_answers.is_some() {
            let [more, less] = fields.dns_answers.unwrap_or(0).to_be_bytes();
            self.put(Tag::DnsAnswer, &[fields.dns_rcode.unwrap_or(0), more, less]);
        }
        self.add_number(Tag::DnsLatency, fields.dns_latency_ns.map(u64::to_be_bytes));
        self.add_number(Tag::TlsVersion, fields.tls_version.map(u16::to_be_bytes));
        self.add_number(Tag::Cipher, fields.tls_cipher.map(u16::to_be_bytes));
        self.add_number(Tag::Ja4, fields.tls_ja4.and_then(|ja4| ja4.pack()));
        self.add_number(Tag::QuicVersion, fields.quic_version.map(u32::to_be_bytes));
        self.add_number(Tag::Status, fields.http_status.map(u16::to_be_bytes));
        self.add_number(Tag::Stratum, fields.ntp_stratum.map(u8::to_be_bytes));
        self.add_number(Tag::Stun, fields.stun_method.map(u16::to_be_bytes));
        if let Some(kind) = fields.rtp_payload_type {
            let [a, b, c, d] = fields.rtp_ssrc.unwrap_or(0).to_be_bytes();
            self.put(Tag::Rtp, &[kind, a, b, c, d]);
        }
    }
}

impl<'a> Text<'a> {
    /// Returns text that may have anything in it, for [`Entry::of`], which escapes it.
    #[must_use]
    pub fn raw(text: &'a str) -> Self {
        Self { text, cut: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Ja4;
    use crate::protocol::Protocol;

    #[test]
    fn an_entry_comes_back_from_its_fields() {
        let mut entry = Entry::new();
        entry.set_protocol(Protocol::Tls);
        entry.put_text(Tag::Sni, b"example.org", LONGEST, true);
        entry.put_text(Tag::Alpn, b"h2\n\\", LONGEST, true);
        entry.put(Tag::TlsVersion, &[3, 4]);
        entry.put(Tag::Ja4, &[b't'; Ja4::PACKED]);
        entry.put(Tag::Rtp, &[96, 1, 2, 3, 4]);
        entry.put(Tag::DnsAnswer, &[3, 0, 7]);
        entry.name_by(NameSource::Sni);
        assert_eq!(Entry::of(&entry.fields()).fields(), entry.fields());
        let mut named = Entry::new();
        named.set_dns_name("example.net");
        assert_eq!(Entry::of(&named.fields()).fields(), named.fields());
        named.set_dns_name("other.example");
        let name = named.fields().name.map(Text::as_str);
        assert_eq!(name, Some("example.net"));
    }

    #[test]
    fn text_of_strangers_is_escaped() {
        let fields = Fields {
            http_host: Some(Text::raw("a\u{1b}[0m")),
            name: Some(Text::raw("b")),
            ..Fields::default()
        };
        let entry = Entry::of(&fields);
        let host = entry.fields().http_host.map(Text::as_str);
        assert_eq!(host, Some("a\\u{1b}[0m"));
        assert_eq!(entry.fields().name_source, Some(NameSource::Dns));
    }

    #[test]
    fn fingerprints_are_read() {
        let text = "t13d1516h2_8daaf6152771_e5627efa2ab1";
        let read = Ja4::parse(text).expect("a fingerprint");
        assert_eq!(read.as_str(), text);
        assert_eq!(Ja4::parse("t13d1516h2_8daaf6152771_e5627efa2abX"), None);
        assert_eq!(Ja4::parse("short"), None);
    }
}
