//! The fields of a flow record: one table, from which columns of files, templates of NetFlow v9 and
//! IPFIX, the words of `--fields` and the table in docs/reference/flow-export.md are made.
//!
//! To add a field, add a row to [`FIELDS`] behind the others of its group, and run `cargo xtask options`.
//! Names and order of the group [`Group::Basic`] are a contract: scripts depend on them. `stored.rs` has the
//! types of the columns in stores and databases, and the version of the schema.

mod select;
mod stored;
mod table;
mod value;

use std::borrow::Cow;
use std::net::SocketAddr;

use ringtap_inspect::Fields as Application;

use crate::FlowRecord;
pub use crate::export::Form;
pub use select::{FieldError, Fields};
pub use stored::{EXPORTER_NUMBER, Partition, SCHEMA_VERSION, Storage, address_bytes};
pub use table::{FIELD_COUNT, FIELDS};
pub use value::{Kind, Value};

/// A record with everything that outputs know about it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The record.
    pub record: &'a FlowRecord,
    /// The sampling interval N: one of N packets was metered.
    pub sampling: u32,
    /// The exporter that sent the record, if it was not metered here.
    pub origin: Option<&'a Origin>,
    /// The entries of databases about the source.
    pub source: Place<'a>,
    /// The same for the destination.
    pub destination: Place<'a>,
    /// The fields of the application layer, if the record has any.
    application: Option<Application<'a>>,
}

/// The exporter that sent a record.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Its address.
    pub exporter: SocketAddr,
    /// Observation domain, source id or engine id.
    pub domain: u32,
    /// The sampling interval N (one of N packets was metered), if the exporter has sent it.
    pub sampling: u32,
}

/// The entries of databases about an end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// The number of the autonomous system that announces the address.
    pub as_number: Option<u32>,
    /// The name of that system's organisation.
    pub as_name: Option<&'a str>,
    /// The country's code of two letters (ISO 3166-1).
    pub country: Option<&'a str>,
    /// The vendor of the network card, by the MAC address.
    pub vendor: Option<&'a str>,
}

impl<'a> Row<'a> {
    /// Returns the row of a record that was metered here, without sampling.
    #[inline]
    #[must_use]
    pub fn new(record: &'a FlowRecord) -> Self {
        let application = record.application.as_ref();
        Self {
            record,
            sampling: 1,
            origin: None,
            source: Place::default(),
            destination: Place::default(),
            application: application.map(|entry| entry.fields()),
        }
    }

    /// Returns the name of the exporter: the address of the one that sent the record, or `own`, the name of this
    /// probe.
    #[must_use]
    pub fn exporter_name<'n>(&self, own: &'n str) -> Cow<'n, str> {
        match self.origin {
            Some(origin) => origin.exporter.ip().to_canonical().to_string().into(),
            None => own.into(),
        }
    }

    /// Returns the row with another record of the same flow.
    pub(crate) fn with_record<'b>(&self, record: &'b FlowRecord) -> Row<'b>
    where
        'a: 'b,
    {
        Row { record, ..*self }
    }

    /// Returns the row with source and destination exchanged.
    pub(crate) fn exchanged(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ..self
        }
    }

    /// Returns the fields of the application layer, if the record has any.
    #[must_use]
    pub fn application(&self) -> Option<&Application<'a>> {
        self.application.as_ref()
    }
}

/// A field: a column of files, and an element of messages.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name of the column, for `--fields` too.
    pub name: &'static str,
    /// The group that has it.
    pub group: Group,
    /// The kind of its values.
    pub kind: Kind,
    /// Its meaning, in a sentence without its full stop.
    pub doc: &'static str,
    /// The elements that carry it; none: files only.
    pub elements: &'static [Wire],
    /// Whether files have it; else it is in messages only.
    pub in_files: bool,
    /// The bits that its numbers need.
    bits: u8,
    get: Get,
}

type Get = for<'r> fn(&'r Row<'r>) -> Option<Value<'r>>;

impl Field {
    /// Returns the value in a row, or `None` if the record has none.
    #[inline]
    #[must_use]
    pub fn value<'r>(&self, row: &'r Row<'r>) -> Option<Value<'r>> {
        (self.get)(row)
    }
}

/// An information element that carries a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// How its value is written.
    pub form: Form,
    /// Its number in IANA's registry, or in the enterprise's.
    pub id: u16,
    /// The private enterprise number; 0: IANA's registry.
    pub enterprise: u32,
    /// Bytes of the value; [`VARIABLE`] for text, which has a length of its own in IPFIX.
    pub length: u16,
    /// Whether NetFlow v9 has it.
    pub v9: bool,
    /// Whether IPFIX has it.
    pub ipfix: bool,
}

/// The length of an element with variable length (RFC 7011, section 7).
pub const VARIABLE: u16 = u16::MAX;

/// A group of fields, as `--fields` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The fields that every output has without `--fields`.
    Basic,
    /// The health of TCP connections, and the time of the first response.
    Tcp,
    /// The protocol of the application layer and the flow's name.
    Names,
    /// DNS.
    Dns,
    /// TLS, also inside of QUIC.
    Tls,
    /// QUIC.
    Quic,
    /// HTTP/1.
    Http,
    /// Banners and what other protocols report about themselves.
    Services,
    /// Autonomous systems and countries.
    As,
    /// Vendors of MAC addresses.
    Mac,
    /// The processes at both ends.
    Process,
}

impl Group {
    /// All groups, in the order of their fields.
    pub const ALL: [Self; 11] = [
        Self::Basic,
        Self::Tcp,
        Self::Names,
        Self::Dns,
        Self::Tls,
        Self::Quic,
        Self::Http,
        Self::Services,
        Self::As,
        Self::Mac,
        Self::Process,
    ];

    /// Returns the word for it in `--fields`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Tcp => "tcp",
            Self::Names => "names",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Http => "http",
            Self::Services => "services",
            Self::As => "as",
            Self::Mac => "mac",
            Self::Process => "process",
        }
    }

    /// Whether its fields come from payloads.
    #[must_use]
    pub const fn needs_payload(self) -> bool {
        matches!(
            self,
            Self::Names | Self::Dns | Self::Tls | Self::Quic | Self::Http | Self::Services
        )
    }
}

/// Returns the name of a flow's protocol of the application layer and how it was found.
pub(crate) fn protocol(
    record: &FlowRecord,
) -> Option<(ringtap_inspect::Protocol, ringtap_inspect::Basis)> {
    use ringtap_inspect::Transport;
    use ringtap_packet::protocol::{TCP, UDP};
    let key = &record.key;
    let transport = match key.protocol {
        TCP => Transport::Tcp { sequence: 0 },
        UDP => Transport::Udp,
        _ => return None,
    };
    ringtap_inspect::protocol_of(
        record.application.as_ref(),
        transport,
        key.source_port,
        key.destination_port,
    )
}
