//! The fields of the application layer that an exporter has sent.
//!
//! Data in: elements, in any order. Data out: an entry as the meter makes them. The table of fields says
//! which element is which field.

use std::collections::HashMap;
use std::sync::LazyLock;

use ringtap_flow::Entry;
use ringtap_flow::export::{Enterprise, NTOP_PEN, OWN_PEN};
use ringtap_flow::schema::{FIELDS, Field, Kind};
use ringtap_inspect::{Fields, Ja4, NameSource, Protocol, Text};

use super::fields::{Number, unsigned};

/// The number that ntop adds to its own in NetFlow v9.
const NTOP_V9: u16 = 57_472;
/// The longest text that is taken, in bytes: what an entry has room for.
const LONGEST: usize = 255;

/// Fields that come from payloads, by enterprise and number of their elements.
static BY_ELEMENT: LazyLock<HashMap<(u32, u16), &'static Field>> = LazyLock::new(|| {
    let fields = FIELDS.iter().filter(|field| field.group.needs_payload());
    let elements = fields.flat_map(|field| field.elements.iter().map(move |wire| (wire, field)));
    elements
        .map(|(wire, field)| ((wire.enterprise, wire.id), field))
        .collect()
});

/// The fields so far, each once.
#[derive(Debug, Default)]
pub(super) struct Application {
    texts: Vec<(&'static str, String)>,
    numbers: Vec<(&'static str, u64)>,
}

/// Returns the number of an element by its enterprise, also in NetFlow v9; that of ringtap's own elements is
/// [`OWN_PEN`], whatever number their exporter was given.
pub(super) fn by_enterprise(number: Number, own: Enterprise) -> Number {
    match number {
        Number { id, enterprise } if enterprise == own.number() => Number {
            id,
            enterprise: OWN_PEN,
        },
        Number { id, enterprise: 0 } if id >= NTOP_V9 => Number {
            id: id - NTOP_V9,
            enterprise: NTOP_PEN,
        },
        other => other,
    }
}

impl Application {
    /// Takes an element; returns whether it is one of these fields.
    pub(super) fn element(&mut self, number: Number, bytes: &[u8]) -> bool {
        let key = (number.enterprise, number.id);
        let Some(field) = BY_ELEMENT.get(&key) else {
            return false;
        };
        let name = field.name;
        if field.kind != Kind::Text {
            let is_new = self.numbers.iter().all(|(known, _)| *known != name);
            if let (Some(value), true) = (unsigned(bytes), is_new) {
                self.numbers.push((name, value));
            }
            return true;
        }
        // Exporters fill texts of a fixed length up with zeros.
        let end = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(&bytes[..end.min(LONGEST)]);
        let is_new = self.texts.iter().all(|(known, _)| *known != name);
        if is_new && !text.is_empty() {
            self.texts.push((name, text.into_owned()));
        }
        true
    }

    /// Returns the entry with the fields; none if there are none.
    pub(super) fn entry(&self) -> Option<Entry> {
        if self.texts.is_empty() && self.numbers.iter().all(|(_, value)| *value == 0) {
            return None;
        }
        let mut fields = Fields::default();
        for (name, text) in &self.texts {
            set_text(&mut fields, name, text);
        }
        // A protocol by its port is found again.
        let is_by_port = |(name, text): &(&str, String)| *name == "app_basis" && text == "port";
        if self.texts.iter().any(is_by_port) {
            fields.protocol = None;
        }
        // Numbers of records without the field are 0.
        for &(name, value) in self.numbers.iter().filter(|(_, value)| *value != 0) {
            set_number(&mut fields, name, value);
        }
        if fields.dns_answers.is_some() || fields.dns_latency_ns.is_some() {
            fields.dns_rcode.get_or_insert(0);
            fields.dns_answers.get_or_insert(0);
        }
        if fields.rtp_ssrc.is_some() {
            fields.rtp_payload_type.get_or_insert(0);
        }
        let entry = Entry::of(&fields);
        (!entry.is_empty()).then_some(entry)
    }
}

fn set_text<'a>(fields: &mut Fields<'a>, name: &str, text: &'a str) {
    let raw = Some(Text::raw(text));
    match name {
        "app" => fields.protocol = by_name(Protocol::ALL, text, Protocol::name),
        "name" => fields.name = raw,
        "name_source" => fields.name_source = by_name(NameSource::ALL, text, NameSource::name),
        "dns_query" => fields.dns_name = raw,
        "tls_sni" => fields.tls_sni = raw,
        "tls_alpn" => fields.tls_alpn = raw,
        "tls_ja4" => fields.tls_ja4 = Ja4::parse(text),
        "http_host" => fields.http_host = raw,
        "http_method" => fields.http_method = raw,
        "http_path" => fields.http_path = raw,
        "http_user_agent" => fields.http_user_agent = raw,
        "client_banner" => fields.client_banner = raw,
        "server_banner" => fields.server_banner = raw,
        "dhcp_host" => fields.dhcp_host = raw,
        "dhcp_vendor" => fields.dhcp_vendor = raw,
        "mqtt_client_id" => fields.mqtt_client_id = raw,
        "rdp_cookie" => fields.rdp_cookie = raw,
        _ => {}
    }
}

fn set_number(fields: &mut Fields<'_>, name: &str, value: u64) {
    let byte = u8::try_from(value).ok();
    let short = u16::try_from(value).ok();
    let word = u32::try_from(value).ok();
    match name {
        "dns_type" => fields.dns_type = short,
        "dns_rcode" => fields.dns_rcode = byte,
        "dns_answers" => fields.dns_answers = short,
        "dns_latency_ns" => fields.dns_latency_ns = Some(value),
        "tls_version" => fields.tls_version = short,
        "tls_cipher" => fields.tls_cipher = short,
        "quic_version" => fields.quic_version = word,
        "http_status" => fields.http_status = short,
        "ntp_stratum" => fields.ntp_stratum = byte,
        "stun_method" => fields.stun_method = short,
        "rtp_payload_type" => fields.rtp_payload_type = byte,
        "rtp_ssrc" => fields.rtp_ssrc = word,
        _ => {}
    }
}

fn by_name<T: Copy>(all: &[T], text: &str, name: fn(T) -> &'static str) -> Option<T> {
    all.iter().copied().find(|&known| name(known) == text)
}
