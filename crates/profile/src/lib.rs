//! Measures the cost of a captured packet, component by component.
//!
//! While a capture runs, its processors are sampled, the kernel's own counters are read, and
//! programs that are cut short are compared. The result is nanoseconds per packet for each
//! component from the interrupt to the application, including the unexplained rest. The crate is no
//! general profiler, prints nothing, and changes no setting of an interface.
//!
//! [`run()`] takes a [`Plan`] and an engine; [`traffic`] generates packets if there are none;
//! [`sampling`](crate::attribute) maps call chains to [`Component`]s by a table
//! (`components.toml`). [`differential`] attaches the tap's program cut short after each of its
//! steps; [`report`] computes values with their confidence, and [`advice`] explains them.
#![forbid(unsafe_code)]

pub mod advice;
pub mod attribute;
mod build_report;
pub mod chart;
mod component;
pub mod counters;
pub mod differential;
mod error;
mod interface;
mod overhead;
mod own_symbols;
mod plan;
mod poll_counters;
mod reader;
pub mod report;
mod run;
mod table;
pub mod text;
pub mod traffic;
mod trial;
pub mod trials;

pub use component::{COMPONENTS, Component};
pub use error::{Error, Result};
pub use plan::Plan;
pub use report::{Figure, Report};
pub use ringtap_sys::symbols::{KernelSymbols, SymbolError};
pub use run::run;
pub use table::{Class, Outside, Table, TapKind};
pub use trial::Trial;
