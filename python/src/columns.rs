//! Packets as columns of Arrow.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, StringDictionaryBuilder};
use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, LargeBinaryArray, RecordBatch, TimestampNanosecondArray, UInt8Array, UInt16Array,
    UInt32Array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use ringtap_packet::PacketFlags;

use crate::arena::{Arena, Line};
use crate::fields::Fields;

/// How a column gets its values.
#[derive(Clone, Copy)]
enum Values {
    Time,
    /// From the packet's line and the number of captured bytes.
    Line(fn(&Line, usize) -> u32),
    Direction,
    Byte(fn(&Fields) -> Option<u8>),
    Word(fn(&Fields) -> Option<u16>),
    Long(fn(&Fields) -> Option<u32>),
    /// The source (0) or the destination (1).
    Address(usize),
    Data,
}

/// The columns by name, in order. `docs/reference/python.md` describes them.
const COLUMNS: [(&str, Values); 20] = [
    ("time", Values::Time),
    ("interface", Values::Line(|line, _| line.interface)),
    ("direction", Values::Direction),
    ("length", Values::Line(|line, _| line.len)),
    (
        "captured",
        Values::Line(|_, captured| u32::try_from(captured).unwrap_or(u32::MAX)),
    ),
    ("ether_type", Values::Word(|fields| fields.ether_type)),
    ("vlan", Values::Word(|fields| fields.vlan)),
    ("src", Values::Address(0)),
    ("dst", Values::Address(1)),
    ("protocol", Values::Byte(|fields| fields.protocol)),
    (
        "src_port",
        Values::Word(|fields| fields.ports.map(|ports| ports[0])),
    ),
    (
        "dst_port",
        Values::Word(|fields| fields.ports.map(|ports| ports[1])),
    ),
    ("ttl", Values::Byte(|fields| fields.ttl)),
    ("tos", Values::Byte(|fields| fields.tos)),
    (
        "tcp_flags",
        Values::Byte(|fields| fields.tcp.map(|tcp| tcp.flags)),
    ),
    (
        "tcp_seq",
        Values::Long(|fields| fields.tcp.map(|tcp| tcp.seq)),
    ),
    (
        "tcp_ack",
        Values::Long(|fields| fields.tcp.map(|tcp| tcp.ack)),
    ),
    (
        "tcp_window",
        Values::Word(|fields| fields.tcp.map(|tcp| tcp.window)),
    ),
    ("payload", Values::Long(|fields| fields.payload)),
    (DATA, Values::Data),
];

/// The column with the captured bytes, which is there only when it is asked for.
const DATA: &str = "data";

/// The columns that somebody chose.
#[derive(Clone)]
pub(crate) struct Columns {
    chosen: Vec<(&'static str, Values)>,
    schema: SchemaRef,
}

/// Some packets of an arena, with the fields of their headers.
struct Run<'a> {
    arena: &'a Arena,
    from: usize,
    to: usize,
    fields: Vec<Fields>,
}

impl Columns {
    /// Returns the columns of these names, or without names all but the data.
    ///
    /// # Errors
    /// The unknown name, with those that exist.
    pub(crate) fn of(names: Option<&[String]>) -> Result<Self, String> {
        let chosen = match names {
            None => COLUMNS
                .into_iter()
                .filter(|(name, _)| *name != DATA)
                .collect(),
            Some(names) => names
                .iter()
                .map(|name| find(name))
                .collect::<Result<Vec<_>, _>>()?,
        };
        let fields: Vec<Field> = chosen
            .iter()
            .map(|&(name, values)| values.field(name))
            .collect();
        Ok(Self {
            chosen,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns the packets `from..to` of an arena. The data are those of the arena, without a copy.
    pub(crate) fn batch(
        &self,
        arena: &Arena,
        from: usize,
        to: usize,
    ) -> Result<RecordBatch, ArrowError> {
        let needs_fields = self.chosen.iter().any(|(_, values)| values.needs_fields());
        let fields = (from..to).filter(|_| needs_fields).map(|at| {
            let line = arena.line(at);
            Fields::of(line.link_type, arena.data(at), line.len)
        });
        let run = Run {
            arena,
            from,
            to,
            fields: fields.collect(),
        };
        let arrays = self.chosen.iter().map(|(_, values)| values.array(&run));
        RecordBatch::try_new(self.schema(), arrays.collect())
    }
}

fn find(name: &str) -> Result<(&'static str, Values), String> {
    let found = COLUMNS.into_iter().find(|(known, _)| *known == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        format!("unknown field {name:?}; known are: {}", known.join(", "))
    })
}

impl Values {
    fn field(self, name: &str) -> Field {
        let (kind, nullable) = match self {
            Self::Time => (
                DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
                false,
            ),
            Self::Line(_) => (DataType::UInt32, false),
            Self::Direction => {
                let key = Box::new(DataType::UInt8);
                (DataType::Dictionary(key, Box::new(DataType::Utf8)), true)
            }
            Self::Byte(_) => (DataType::UInt8, true),
            Self::Word(_) => (DataType::UInt16, true),
            Self::Long(_) => (DataType::UInt32, true),
            Self::Address(_) => (DataType::Utf8, true),
            Self::Data => (DataType::LargeBinary, false),
        };
        Field::new(name, kind, nullable)
    }

    fn needs_fields(self) -> bool {
        !matches!(
            self,
            Self::Time | Self::Line(_) | Self::Direction | Self::Data
        )
    }

    fn array(self, run: &Run<'_>) -> ArrayRef {
        match self {
            Self::Time => Arc::new(
                TimestampNanosecondArray::from_iter_values(run.lines().map(nanos))
                    .with_timezone("UTC"),
            ),
            Self::Line(of) => Arc::new(UInt32Array::from_iter_values(
                (run.from..run.to).map(|at| of(run.arena.line(at), run.arena.data(at).len())),
            )),
            Self::Direction => run.directions(),
            Self::Byte(of) => Arc::new(run.fields.iter().map(of).collect::<UInt8Array>()),
            Self::Word(of) => Arc::new(run.fields.iter().map(of).collect::<UInt16Array>()),
            Self::Long(of) => Arc::new(run.fields.iter().map(of).collect::<UInt32Array>()),
            Self::Address(which) => run.addresses(which),
            Self::Data => run.data(),
        }
    }
}

impl Run<'_> {
    fn lines(&self) -> impl Iterator<Item = &Line> {
        (self.from..self.to).map(|at| self.arena.line(at))
    }

    fn directions(&self) -> ArrayRef {
        let mut builder = StringDictionaryBuilder::<UInt8Type>::new();
        for line in self.lines() {
            builder.append_option(direction(line.flags));
        }
        Arc::new(builder.finish())
    }

    fn addresses(&self, which: usize) -> ArrayRef {
        let mut builder = StringBuilder::with_capacity(self.fields.len(), self.fields.len() * 13);
        for fields in &self.fields {
            match fields.addresses {
                None => builder.append_null(),
                Some(both) => {
                    // A builder in memory takes any text.
                    let _ = write!(builder, "{}", both[which]);
                    builder.append_value("");
                }
            }
        }
        Arc::new(builder.finish())
    }

    fn data(&self) -> ArrayRef {
        let offsets =
            (self.from..=self.to).map(|at| i64::try_from(self.arena.start(at)).unwrap_or(i64::MAX));
        let offsets = OffsetBuffer::new(ScalarBuffer::from_iter(offsets));
        Arc::new(LargeBinaryArray::new(offsets, self.arena.buffer(), None))
    }
}

/// Returns nanoseconds since 1970; times beyond the years 1677 to 2262 become the nearest of these.
pub(crate) fn nanos(line: &Line) -> i64 {
    let nanos = line.timestamp.as_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Returns `in` or `out`, if the direction is known.
pub(crate) fn direction(flags: PacketFlags) -> Option<&'static str> {
    match flags.0 & 3 {
        1 => Some("in"),
        2 => Some("out"),
        _ => None,
    }
}
