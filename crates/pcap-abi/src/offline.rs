//! Capture files as handles: `pcap_open_offline`, `pcap_fopen_offline`, and dead handles.

use std::ffi::{c_int, c_uint};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use libc::FILE;
use ringtap_capture::{Error, FileSource, Interface, Next, ReadOptions, Source, open_stream};
use ringtap_savefile::Format;

use crate::borrowed_block::BorrowedBlock;
use crate::boundary::export;
use crate::follow::Follow;
use crate::handle::{Kind, Opened, Pcap};
use crate::messages;
use crate::state::offline::Offline;
use crate::state::reading::Reading;
use crate::stdio::{Stream, StreamReader};
use crate::text::{CText, ErrBuf, told};
use crate::types::{PRECISION_MICRO, PRECISION_NANO};

/// First bytes of a pcapng file.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Opens a capture file on a stream; if that fails, the stream stays open.
fn open(stream: Stream, name: &str, precision: c_uint) -> Result<Box<Pcap>, String> {
    let unknown = || format!("unknown time stamp resolution {precision}");
    let precision = precision_of(precision).ok_or_else(unknown)?;
    let (mut source, offline) = start(stream, name)?;
    let interface = first_interface(&mut source);
    let interface = interface.map_err(|error| messages::of_source(&error, None))?;
    let interface = interface.ok_or(messages::NO_INTERFACE)?;
    let opened = Opened {
        snapshot: interface.effective_snaplen().cast_signed(),
        precision,
        link_type_bits: interface.link_type_bits.cast_signed(),
        kind: Kind::Offline(offline),
    };
    let link_type = interface.link_type.to_dlt().cast_signed();
    let waker = source.waker();
    let reading = Reading::new(BorrowedBlock::new(Box::new(source)), waker);
    Ok(Pcap::ready(opened, link_type, Some(reading)))
}

fn start(stream: Stream, name: &str) -> Result<(FileSource, Offline), String> {
    let mut options = ReadOptions::default();
    let mut begin = None;
    let opened = match seekable(stream) {
        Some((file, at)) => {
            let mut magic = [0; 4];
            begin = Some(at);
            // The thread that reads ahead is started by the first read beyond the header. A pcapng
            // file's interface would need it now, and the program may still fork.
            options.read_ahead = file.read_exact_at(&mut magic, at).is_ok() && magic != PCAPNG;
            FileSource::from_file(file, name, &options, None)
        }
        None => open_stream(Box::new(StreamReader(stream)), name, &options, None),
    };
    let source = opened.map_err(|error| messages::of_source(&error, None))?;
    let reader = source.reader();
    let (major, minor) = reader.version();
    // In other files, the reader's offsets are not those of the stream.
    let is_plain = reader.format() == Format::Pcap && reader.compression().is_none();
    let begin = begin.filter(|_| is_plain);
    if let Some(begin) = begin {
        stream.seek(begin + reader.offset());
    }
    let offline = Offline {
        stream,
        byte_order: reader.byte_order(),
        version: (major.into(), minor.into()),
        follow: begin.map(|begin| Follow::new(stream, begin, begin + reader.offset())),
    };
    Ok((source, offline))
}

/// Opens a regular file again, at the stream's position but with a separate one. Returns the
/// position too.
fn seekable(stream: Stream) -> Option<(std::fs::File, u64)> {
    let is_file = stream.duplicate().ok()?.metadata().ok()?.is_file();
    let position = stream.position().filter(|_| is_file)?;
    let mut file = stream.reopen()?;
    file.seek(SeekFrom::Start(position)).ok()?;
    Some((file, position))
}

/// Returns the first interface, with which all packets must agree; `None` if the file has none.
fn first_interface(source: &mut FileSource) -> Result<Option<Interface>, Error> {
    while source.interfaces().is_empty() {
        match source.next()? {
            Next::Meta(_) => {}
            _ => return Ok(None),
        }
    }
    Ok(source.interfaces().first().cloned())
}

fn precision_of(value: c_uint) -> Option<c_int> {
    let value = c_int::try_from(value).ok()?;
    matches!(value, PRECISION_MICRO | PRECISION_NANO).then_some(value)
}

/// Opens a stream of C.
fn open_given(stream: *mut FILE, precision: c_uint, errbuf: ErrBuf<'_>) -> *mut Pcap {
    let null = || "Null FILE * pointer provided to savefile open routine".to_owned();
    let stream = Stream::of(stream).ok_or_else(null);
    finish(
        stream.and_then(|stream| open(stream, "savefile", precision)),
        errbuf,
    )
}

fn open_path(path: CText<'_>, precision: c_uint) -> Result<Box<Pcap>, String> {
    let path = path.get().ok_or(messages::NO_FILE_NAME)?;
    let name = path.to_string_lossy();
    if path == c"-" {
        let Some(stream) = Stream::input() else {
            return Err("The standard input is not open".to_owned());
        };
        return open(stream, "standard input", precision);
    }
    let stream = Stream::open(path, c"rb", &name)?;
    open(stream, &name, precision).inspect_err(|_| {
        // SAFETY: the stream was opened here, and nothing else uses it.
        unsafe { stream.close() };
    })
}

fn finish(result: Result<Box<Pcap>, String>, errbuf: ErrBuf<'_>) -> *mut Pcap {
    told(result, errbuf).map_or(std::ptr::null_mut(), Pcap::hand_out)
}

fn dead(link_type: c_int, snaplen: c_int, precision: c_uint) -> *mut Pcap {
    let opened = Opened {
        kind: Kind::Dead,
        snapshot: snaplen,
        // libpcap does the same with an unknown precision.
        precision: precision_of(precision).unwrap_or(PRECISION_MICRO),
        link_type_bits: 0,
    };
    Pcap::ready(opened, link_type, None).hand_out()
}

export! {
    /// Opens a capture file, with fractions of seconds in microseconds.
    fn pcap_open_offline(path: CText<'_>, errbuf: ErrBuf<'_>) -> *mut Pcap {
        finish(open_path(path, 0), errbuf)
    } else std::ptr::null_mut();

    /// Opens a capture file.
    fn pcap_open_offline_with_tstamp_precision(
        path: CText<'_>, precision: c_uint, errbuf: ErrBuf<'_>,
    ) -> *mut Pcap {
        finish(open_path(path, precision), errbuf)
    } else std::ptr::null_mut();

    /// Reads a capture file from a stream, with fractions of seconds in microseconds.
    fn pcap_fopen_offline(stream: *mut FILE, errbuf: ErrBuf<'_>) -> *mut Pcap {
        open_given(stream, 0, errbuf)
    } else std::ptr::null_mut();

    /// Reads a capture file from a stream.
    fn pcap_fopen_offline_with_tstamp_precision(
        stream: *mut FILE, precision: c_uint, errbuf: ErrBuf<'_>,
    ) -> *mut Pcap {
        open_given(stream, precision, errbuf)
    } else std::ptr::null_mut();

    /// Returns a handle without packets, for compiling filters and writing files.
    fn pcap_open_dead(link_type: c_int, snaplen: c_int) -> *mut Pcap {
        dead(link_type, snaplen, 0)
    } else std::ptr::null_mut();

    /// Returns such a handle with a precision of timestamps.
    fn pcap_open_dead_with_tstamp_precision(
        link_type: c_int, snaplen: c_int, precision: c_uint,
    ) -> *mut Pcap {
        dead(link_type, snaplen, precision)
    } else std::ptr::null_mut();

    /// Closes and frees a handle; a thread that waits for its packets returns. If a callback closes
    /// a handle that is being read, the handle is kept for the rest of that call, and never freed.
    /// A handle that is already closed is ignored.
    fn pcap_close(handle: *mut Pcap) {
        close(handle);
    } else ();
}

fn close(handle: *mut Pcap) {
    let Some(shared) = Pcap::find(handle) else {
        return;
    };
    shared.live_dump.finish(shared);
    let wake = || {
        if shared.live().is_some() {
            shared.wake();
        }
    };
    let Some(mut reading) = shared.try_reading() else {
        shared.broken.store(true, Ordering::Release);
        wake();
        return;
    };
    // A thread that waits for packets finds that the handle is gone.
    shared.id().close();
    wake();
    // The reader must be dropped before its stream is closed.
    *reading = None;
    drop(reading);
    if let Some(offline) = shared.file()
        && Stream::input() != Some(offline.stream)
    {
        // SAFETY: the handle owns the stream, and is closed by this call.
        unsafe { offline.stream.close() };
    }
    // SAFETY: the handle was made from a box and is not in use: the reading side was free, and a
    // thread that waits first checks whether the handle is open.
    drop(unsafe { Box::from_raw(handle) });
}
