//! A packet in Python.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use ringtap_capture::{Filter, Matcher};
use ringtap_print::{PrintOptions, Printer, TimestampFormat};

use crate::arena::Arena;
use crate::columns::{direction, nanos};
use crate::errors;
use crate::fields::Fields;

/// A captured packet.
#[pyclass(frozen, module = "ringtap")]
pub(crate) struct Packet {
    arena: Arc<Arena>,
    at: usize,
}

impl Packet {
    pub(crate) fn new(arena: Arc<Arena>, at: usize) -> Self {
        Self { arena, at }
    }

    pub(crate) fn raw(&self) -> &[u8] {
        self.arena.data(self.at)
    }

    pub(crate) fn timestamp(&self) -> ringtap_capture::Timestamp {
        self.arena.line(self.at).timestamp
    }

    pub(crate) fn accepted_by(&self, filter: &Matcher) -> bool {
        filter.accepts(&self.arena.packet(self.at))
    }

    fn fields(&self) -> Fields {
        let line = self.arena.line(self.at);
        Fields::of(line.link_type, self.raw(), line.len)
    }
}

#[pymethods]
impl Packet {
    /// The time of the capture, in seconds since 1970.
    #[getter]
    fn time(&self) -> f64 {
        let time = self.timestamp();
        time.secs() as f64 + f64::from(time.subsec_nanos()) / 1e9
    }

    /// The time of the capture, in nanoseconds since 1970.
    #[getter]
    fn time_ns(&self) -> i64 {
        nanos(self.arena.line(self.at))
    }

    /// The captured bytes, from the link-layer header on.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.raw())
    }

    /// The length on the wire, in bytes.
    #[getter]
    fn length(&self) -> u32 {
        self.arena.line(self.at).len
    }

    /// The number of the interface, an index into the reader's `interfaces`.
    #[getter]
    fn interface(&self) -> u32 {
        self.arena.line(self.at).interface
    }

    /// "in", "out", or None if the direction is unknown.
    #[getter]
    fn direction(&self) -> Option<&'static str> {
        direction(self.arena.line(self.at).flags)
    }

    /// The name of the link-layer header's type, such as "EN10MB".
    #[getter]
    fn link_type(&self) -> String {
        self.arena.line(self.at).link_type.to_string()
    }

    /// The source address of IP, or None.
    #[getter]
    fn src(&self) -> Option<String> {
        self.fields().addresses.map(|both| both[0].to_string())
    }

    /// The destination address of IP, or None.
    #[getter]
    fn dst(&self) -> Option<String> {
        self.fields().addresses.map(|both| both[1].to_string())
    }

    /// The source port, or None.
    #[getter]
    fn src_port(&self) -> Option<u16> {
        self.fields().ports.map(|ports| ports[0])
    }

    /// The destination port, or None.
    #[getter]
    fn dst_port(&self) -> Option<u16> {
        self.fields().ports.map(|ports| ports[1])
    }

    /// The protocol number of IP, or None.
    #[getter]
    fn protocol(&self) -> Option<u8> {
        self.fields().protocol
    }

    /// The fields of the headers as a dict, without those that the packet lacks.
    #[getter(fields)]
    fn fields_of<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (fields, dict) = (self.fields(), PyDict::new(py));
        let set = |name: &str, value: Option<u32>| match value {
            Some(value) => dict.set_item(name, value),
            None => Ok(()),
        };
        set("ether_type", fields.ether_type.map(u32::from))?;
        set("vlan", fields.vlan.map(u32::from))?;
        if let Some([source, destination]) = fields.addresses {
            dict.set_item("src", source.to_string())?;
            dict.set_item("dst", destination.to_string())?;
        }
        set("protocol", fields.protocol.map(u32::from))?;
        set("src_port", fields.ports.map(|ports| u32::from(ports[0])))?;
        set("dst_port", fields.ports.map(|ports| u32::from(ports[1])))?;
        set("ttl", fields.ttl.map(u32::from))?;
        set("tos", fields.tos.map(u32::from))?;
        set("tcp_flags", fields.tcp.map(|tcp| u32::from(tcp.flags)))?;
        set("tcp_seq", fields.tcp.map(|tcp| tcp.seq))?;
        set("tcp_ack", fields.tcp.map(|tcp| tcp.ack))?;
        set("tcp_window", fields.tcp.map(|tcp| u32::from(tcp.window)))?;
        set("payload", fields.payload)?;
        Ok(dict)
    }

    /// Returns whether a filter expression matches the packet. Compile a `Filter` to test many packets.
    fn matches(&self, expression: &str) -> PyResult<bool> {
        let line = self.arena.line(self.at);
        let filter = Filter::new(expression);
        let program = filter.compile(line.link_type, line.link_type.max_snaplen());
        let program = program.map_err(|error| errors::of_capture(&error))?;
        Ok(self.accepted_by(&Matcher::new(program)))
    }

    /// The packet as `ringtap dump` prints it, without the time.
    fn __str__(&self) -> PyResult<String> {
        let mut line = Vec::new();
        let options = PrintOptions::default().timestamps(TimestampFormat::None);
        let link_type = self.arena.line(self.at).link_type;
        Printer::new(options).print(&mut line, &self.arena.packet(self.at), link_type, None)?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<ringtap.Packet {}>", self.__str__()?))
    }

    fn __len__(&self) -> usize {
        self.raw().len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.data(py)
    }
}
