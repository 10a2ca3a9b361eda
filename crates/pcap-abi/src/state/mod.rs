//! The parts of a handle, each with what it does by itself. They know neither the handle nor the
//! functions of C, which are in the modules beside this one.

pub(crate) mod counting;
pub(crate) mod live;
pub(crate) mod live_dump;
pub(crate) mod offline;
pub(crate) mod reading;
pub(crate) mod sampling;
pub(crate) mod settings;
pub(crate) mod stat_ex;
pub(crate) mod wishes;
