//! Indices of capture files: made by reading a file once, used by searches to skip stretches without results.
//!
//! [`ringtap_savefile::index`] defines the content of an index and its place beside the file.
//! [`ringtap_filter::search`] defines the addresses and ports of a packet, and those that a filter needs.
//! This module combines both.

mod build;
mod search;
mod uncached;

pub use build::{Built, IndexOptions, build_index};
pub use ringtap_savefile::index::{IndexError, SeekPoint, Skips, is_index, path_for};
pub use search::{IndexUse, Search, open_indexed, open_indexed_by, skips, skips_of};
