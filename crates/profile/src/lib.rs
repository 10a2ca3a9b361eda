//! What a captured packet costs, component by component.
//!
//! What it is: a capture is run, and while it runs the processors are sampled, the kernel's own counters
//! are read, and programs cut short are compared; out come nanoseconds per packet for each component of
//! the way from the interrupt to the application, with what can't be explained said. What it is not: it
//! is no general profiler, prints nothing, and changes no setting of an interface.
//!
//! The way through the crate: [`run`] is given a [`Plan`] and an engine; [`traffic`] makes packets where
//! none are there; [`sampling`](crate::attribute) turns call chains into [`Component`]s by a table in data
//! (`components.toml`); [`differential`] attaches the tap's program cut after each of its steps;
//! [`report`] makes figures with their confidence, [`advice`] says what they mean.
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
mod poll_counters;
mod reader;
pub mod report;
mod run;
mod symbols;
mod table;
pub mod text;
pub mod traffic;

pub use component::{COMPONENTS, Component};
pub use error::{Error, Result};
pub use report::{Figure, Report};
pub use run::{Plan, run};
pub use symbols::{KernelSymbols, SymbolError};
pub use table::{Class, Outside, Table, TapKind};
