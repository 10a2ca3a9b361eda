//! Indices of capture files: made by reading a file once, used by searches to pass over stretches of
//! it in which nothing can be found.
//!
//! What is in an index, and how it lies beside the file, is [`ringtap_savefile::index`]'s; which
//! addresses and ports a packet has, and which a filter needs, is [`ringtap_filter::search`]'s. Here
//! the two meet.

mod build;
mod search;

pub use build::{Built, IndexOptions, build_index};
pub use ringtap_savefile::index::{IndexError, SeekPoint, Skips, is_index, path_for};
pub use search::{IndexUse, Search, open_indexed, open_indexed_by, skips};
