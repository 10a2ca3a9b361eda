//! The native part of the Python package `ringtap`: captures, files, filters, flows and sending.
//!
//! Python's lock is released while packets are awaited, read and converted. Packets are copied once for a
//! block; packets, batches and columns of Arrow refer to that copy.

#![forbid(unsafe_code)]

mod arena;
mod batch;
mod columns;
mod devices;
mod errors;
mod fields;
mod filter;
mod flows;
mod open;
mod packet;
mod reader;
mod send;
mod source;

use pyo3::prelude::*;

#[pymodule]
mod _ringtap {
    use super::*;

    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::devices::devices;
    #[pymodule_export]
    use super::errors::{Error, FilterError};
    #[pymodule_export]
    use super::filter::Filter;
    #[pymodule_export]
    use super::flows::{Flows, flows};
    #[pymodule_export]
    use super::open::{capture, read};
    #[pymodule_export]
    use super::packet::Packet;
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::send::{build, send};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
