//! The mapped pages of a BPF ring buffer.
//!
//! The layout is that of `BPF_MAP_TYPE_RINGBUF` (Documentation/bpf/ringbuf.rst): a writable page with the
//! consumer's position, a page with the producer's, and the data, mapped twice.

use std::os::fd::AsFd;

use super::error::{Error, Result};
use super::map::Map;
use super::mapping::page_size;
use crate::pages::{Pages, READ_WRITE};

/// In the header of a record: the record is still being written (`BPF_RINGBUF_BUSY_BIT`).
pub(crate) const BUSY: u32 = 1 << 31;
/// In the header of a record: the record was discarded (`BPF_RINGBUF_DISCARD_BIT`).
pub(crate) const DISCARDED: u32 = 1 << 30;
/// Bytes of a record's header (`BPF_RINGBUF_HDR_SZ`).
pub(crate) const HEADER: u64 = 8;

/// Maps a ring buffer of `size` bytes of data: the consumer's page, which may be written, and the
/// producer's page with both copies of the data behind it.
pub(crate) fn map_ring(map: &Map, size: usize) -> Result<(Pages, Pages)> {
    let page = page_size();
    let part = |offset, len, protection| {
        let pages = Pages::map(Some(map.as_fd()), offset, len, protection, libc::MAP_SHARED);
        pages.map_err(|source| Error::call("mmap(ring buffer)", map.name(), source, None))
    };
    let consumer = part(0, page, READ_WRITE)?;
    Ok((consumer, part(page, page + 2 * size, libc::PROT_READ)?))
}
