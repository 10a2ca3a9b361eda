//! Compiled filters in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringtap_capture::{LinkType, Matcher};
use ringtap_packet::{PacketFlags, Timestamp};

use crate::errors;
use crate::packet::Packet;

/// A compiled filter expression, in libpcap's language.
#[pyclass(frozen, module = "ringtap")]
pub(crate) struct Filter {
    expression: String,
    link_type: LinkType,
    program: String,
    matcher: Matcher,
}

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(signature = (expression, link_type="EN10MB", *, extended=false))]
    fn new(expression: &str, link_type: &str, extended: bool) -> PyResult<Self> {
        let found = LinkType::from_name(link_type);
        let link_type = found
            .ok_or_else(|| PyValueError::new_err(format!("unknown link type {link_type:?}")))?;
        let filter = ringtap_capture::Filter::new(expression).with_extensions(extended);
        let program = filter.compile(link_type, link_type.max_snaplen());
        let program = program.map_err(|error| errors::of_capture(&error))?;
        Ok(Self {
            expression: expression.to_owned(),
            link_type,
            program: ringtap_filter::disasm::listing(&program),
            matcher: Matcher::new(program),
        })
    }

    /// The classic-BPF program, as `tcpdump -d` prints it.
    #[getter]
    fn program(&self) -> &str {
        &self.program
    }

    /// Returns whether the filter matches a packet or bytes. `length` is the length on the wire, if the bytes
    /// were cut.
    #[pyo3(signature = (packet, length=None))]
    fn matches(&self, packet: &Bound<'_, PyAny>, length: Option<u32>) -> PyResult<bool> {
        if let Ok(packet) = packet.cast::<Packet>() {
            return Ok(packet.get().accepted_by(&self.matcher));
        }
        let data: &[u8] = packet.extract()?;
        let len = length.unwrap_or_else(|| u32::try_from(data.len()).unwrap_or(u32::MAX));
        Ok(self.matcher.accepts(&ringtap_packet::Packet {
            timestamp: Timestamp::default(),
            len,
            interface: 0,
            flags: PacketFlags::default(),
            data,
            process: None,
        }))
    }

    #[pyo3(signature = (packet, length=None))]
    fn __call__(&self, packet: &Bound<'_, PyAny>, length: Option<u32>) -> PyResult<bool> {
        self.matches(packet, length)
    }

    fn __str__(&self) -> &str {
        &self.expression
    }

    fn __repr__(&self) -> String {
        format!(
            "ringtap.Filter({:?}, {:?})",
            self.expression,
            self.link_type.to_string()
        )
    }
}
