//! Writes capture files: `pcap_dump_open` and its family. As in libpcap, a dumper is the stream
//! itself.

use std::ffi::{CStr, c_int, c_long, c_uchar, c_void};
use std::os::unix::fs::FileTypeExt;
use std::sync::Mutex;

use libc::FILE;
use ringtap_capture::LinkType;

use crate::boundary::{export, export_quick};
use crate::handle::{Opened, Pcap, lock};
use crate::stdio::Stream;
use crate::text::CText;
use crate::types::{PacketHeader, code};
use crate::{link_types, memory, messages};

/// Bytes of a file's header, and of a record's header.
pub(crate) const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// Link types whose numbers are the same in files, named or not (`DLT_MATCHING_MIN`,
/// `DLT_MATCHING_MAX`).
const MATCHING: std::ops::RangeInclusive<c_int> = 104..=304;
/// Bytes of the buffer of a stream that is a file or a device, but not a terminal.
const BUFFER: usize = 64 * 1024;

/// A buffer of `malloc`.
struct Memory(*mut c_void);

// SAFETY: every thread may free memory of `malloc`.
unsafe impl Send for Memory {}

/// The buffers of open dumpers, by the addresses of their streams.
static BUFFERS: Mutex<Vec<(usize, Memory)>> = Mutex::new(Vec::new());

/// The file header for a handle's packets.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileHeader {
    magic: u32,
    snaplen: u32,
    link_type: u32,
}

impl FileHeader {
    fn of(handle: &Pcap, opened: &Opened, path: &str) -> Result<Self, String> {
        let dlt = handle.dlt();
        let is_known = MATCHING.contains(&dlt) || link_types::name(dlt).is_some();
        let link_type = u32::try_from(dlt)
            .ok()
            .filter(|_| is_known)
            .and_then(LinkType::from_dlt);
        let unknown = || format!("{path}: link-layer type {dlt} isn't supported in savefiles");
        let link_type = u32::from(link_type.ok_or_else(unknown)?.0);
        Ok(Self {
            magic: if opened.times().nano {
                MAGIC_NANOS
            } else {
                MAGIC_MICROS
            },
            snaplen: opened.snapshot.cast_unsigned(),
            link_type: link_type | opened.link_type_bits.cast_unsigned(),
        })
    }

    fn bytes(self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        bytes[..4].copy_from_slice(&self.magic.to_ne_bytes());
        bytes[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&4_u16.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.snaplen.to_ne_bytes());
        bytes[20..].copy_from_slice(&self.link_type.to_ne_bytes());
        bytes
    }

    /// Checks whether packets may be appended to a file with this header.
    fn check(self, found: &[u8; FILE_HEADER], path: &str) -> Result<(), String> {
        let word = |at: usize| {
            let bytes = found.get(at..).and_then(<[u8]>::first_chunk::<4>);
            u32::from_ne_bytes(bytes.copied().unwrap_or_default())
        };
        let magic = word(0);
        if magic != self.magic {
            let swapped = [MAGIC_MICROS, MAGIC_NANOS].contains(&magic.swap_bytes());
            return Err(match magic {
                MAGIC_MICROS | MAGIC_NANOS => {
                    format!("{path}: different time stamp precision, cannot append to file")
                }
                _ if swapped => format!("{path}: different byte order, cannot append to file"),
                _ => format!("{path}: not a pcap file"),
            });
        }
        let (major, minor) = ([found[4], found[5]], [found[6], found[7]]);
        let version = (u16::from_ne_bytes(major), u16::from_ne_bytes(minor));
        if version != (2, 4) {
            let (major, minor) = version;
            return Err(format!(
                "{path}: version is {major}.{minor}, cannot append to file"
            ));
        }
        if word(20) != self.link_type {
            return Err(format!("{path}: different linktype, cannot append to file"));
        }
        if word(16) != self.snaplen {
            return Err(format!("{path}: different snaplen, cannot append to file"));
        }
        Ok(())
    }
}

/// Gives the stream a large buffer, unless it is a pipe, a socket or a terminal, whose other end
/// reads along.
fn enlarge_buffer(stream: Stream) {
    let metadata = stream.duplicate().and_then(|file| file.metadata());
    let alone = metadata.is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_file() || kind.is_block_device() || kind.is_char_device()
    });
    // SAFETY: takes no pointer.
    if !alone || unsafe { libc::isatty(stream.number()) } == 1 {
        return;
    }
    let buffer = Memory(stream.set_buffer(BUFFER));
    take_buffer(stream);
    lock(&BUFFERS).push((stream.as_ptr() as usize, buffer));
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the stream that used the buffer is closed.
        unsafe { libc::free(self.0) };
    }
}

/// Takes the stream's buffer from the list, if it has one there.
fn take_buffer(stream: Stream) -> Option<Memory> {
    let mut buffers = lock(&BUFFERS);
    let at = buffers
        .iter()
        .position(|(owner, _)| *owner == stream.as_ptr() as usize)?;
    let (_, buffer) = buffers.swap_remove(at);
    if buffers.is_empty() {
        // So that leak checkers find no memory that was not freed.
        buffers.shrink_to_fit();
    }
    Some(buffer)
}

/// Closes the stream and frees its buffer; the standard output stays open.
pub(crate) fn close(stream: Stream) {
    stream.flush();
    if Stream::output() == Some(stream) {
        return;
    }
    let buffer = take_buffer(stream);
    // SAFETY: the dumper belongs to C, which gives it up with this call.
    unsafe { stream.close() };
    drop(buffer);
}

/// Returns the header of files with a handle's packets.
fn header(handle: &Pcap, path: &str) -> Result<FileHeader, String> {
    let inactive = || format!("{path}: not-yet-activated pcap_t passed to pcap_dump_open");
    FileHeader::of(handle, handle.opened.get().ok_or_else(inactive)?, path)
}

/// Creates a file for the handle's packets and writes its header.
pub(crate) fn create(handle: &Pcap, path: &CStr) -> Result<Stream, String> {
    if path == c"-" {
        let header = header(handle, "standard output")?;
        let stream = Stream::output().ok_or("The standard output is not open")?;
        return begin(stream, header, "standard output");
    }
    let name = path.to_string_lossy();
    let header = header(handle, &name)?;
    let stream = Stream::open(path, c"wb", &name)?;
    enlarge_buffer(stream);
    begin(stream, header, &name).inspect_err(|_| close(stream))
}

/// Writes the header.
fn begin(stream: Stream, header: FileHeader, name: &str) -> Result<Stream, String> {
    if stream.write(&header.bytes(), &[]) {
        return Ok(stream);
    }
    let error = std::io::Error::last_os_error();
    Err(messages::of_path(&format!("Can't write to {name}"), &error))
}

fn append(handle: &Pcap, path: &CStr) -> Result<Stream, String> {
    if path == c"-" {
        return create(handle, path);
    }
    let name = path.to_string_lossy();
    // As in libpcap, the file is checked first.
    let header = match handle.opened.get() {
        Some(opened) => FileHeader::of(handle, opened, &name)?,
        None => FileHeader {
            magic: MAGIC_MICROS,
            snaplen: 0,
            link_type: 0,
        },
    };
    let stream = Stream::open(path, c"ab+", &name)?;
    enlarge_buffer(stream);
    continue_file(stream, header, &name).inspect_err(|_| close(stream))
}

fn continue_file(stream: Stream, header: FileHeader, name: &str) -> Result<Stream, String> {
    let failed = |error| messages::of_path(name, &error);
    stream.rewind();
    let mut found = [0; FILE_HEADER];
    let count = stream.read(&mut found).map_err(failed)?;
    stream.seek_end().map_err(failed)?;
    match count {
        0 => begin(stream, header, name),
        FILE_HEADER => header.check(&found, name).map(|()| stream),
        _ => Err(format!("{name}: truncated pcap file header")),
    }
}

fn opened(
    handle: Option<&Pcap>,
    result: impl FnOnce(&Pcap) -> Result<Stream, String>,
) -> *mut FILE {
    let Some(handle) = handle else {
        return std::ptr::null_mut();
    };
    result(handle).map_or_else(
        |message| {
            handle.say(message);
            std::ptr::null_mut()
        },
        Stream::as_ptr,
    )
}

/// Returns the header of a record in the file's format.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "files have the lower 32 bits of seconds"
)]
pub(crate) fn record(header: &PacketHeader) -> [u8; RECORD_HEADER] {
    let words = [
        header.ts.tv_sec as u32,
        header.ts.tv_usec as u32,
        header.caplen,
        header.len,
    ];
    let mut bytes = [0; RECORD_HEADER];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Writes a packet. With `tries`, writes only if the stream's buffer has room, and otherwise
/// returns false.
#[inline]
fn dump(
    dumper: *mut c_uchar,
    header: Option<&PacketHeader>,
    data: *const c_uchar,
    tries: bool,
) -> bool {
    let (Some(stream), Some(header)) = (Stream::of(dumper.cast()), header) else {
        return true;
    };
    // SAFETY: C's contract: the header holds the number of bytes.
    let data = unsafe { memory::items(data, header.caplen as usize) };
    if tries {
        stream.try_write(&record(header), data)
    } else {
        stream.write(&record(header), data)
    }
}

export_quick! {
    /// Writes a packet; a callback of `pcap_loop`.
    fn pcap_dump(dumper: *mut c_uchar, header: Option<&PacketHeader>, data: *const c_uchar) {
        dump(dumper, header, data, true).then_some(())
    } otherwise {
        dump(dumper, header, data, false);
    } else ();
}

export! {
    /// Creates a capture file for the handle's packets; `-` is the standard output.
    fn pcap_dump_open(handle: Option<&Pcap>, path: CText<'_>) -> *mut FILE {
        opened(handle, |handle| create(handle, path.get().ok_or(messages::NO_FILE_NAME)?))
    } else std::ptr::null_mut();

    /// Opens a capture file for appending packets.
    fn pcap_dump_open_append(handle: Option<&Pcap>, path: CText<'_>) -> *mut FILE {
        opened(handle, |handle| append(handle, path.get().ok_or(messages::NO_FILE_NAME)?))
    } else std::ptr::null_mut();

    /// Begins a capture file on a stream.
    fn pcap_dump_fopen(handle: Option<&Pcap>, stream: *mut FILE) -> *mut FILE {
        opened(handle, |handle| {
            let header = header(handle, "stream")?;
            let stream = Stream::of(stream).ok_or("Null FILE * pointer provided")?;
            begin(stream, header, "stream")
        })
    } else std::ptr::null_mut();

    /// Returns the dumper's stream.
    fn pcap_dump_file(dumper: *mut FILE) -> *mut FILE {
        dumper
    } else std::ptr::null_mut();

    /// Returns the bytes written so far, or -1.
    fn pcap_dump_ftell(dumper: *mut FILE) -> c_long {
        let position = Stream::of(dumper).and_then(Stream::position);
        position.and_then(|position| c_long::try_from(position).ok()).unwrap_or(-1)
    } else -1;

    /// Returns the bytes written so far, or -1.
    fn pcap_dump_ftell64(dumper: *mut FILE) -> i64 {
        let position = Stream::of(dumper).and_then(Stream::position);
        position.and_then(|position| i64::try_from(position).ok()).unwrap_or(-1)
    } else -1;

    /// Writes buffered packets to the file.
    fn pcap_dump_flush(dumper: *mut FILE) -> c_int {
        match Stream::of(dumper) {
            Some(stream) if stream.flush() => 0,
            _ => code::ERROR,
        }
    } else code::ERROR;

    /// Completes and closes the file.
    fn pcap_dump_close(dumper: *mut FILE) {
        if let Some(stream) = Stream::of(dumper) {
            close(stream);
        }
    } else ();
}
