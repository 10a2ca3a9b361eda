//! Files and interfaces are opened.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use ringtap_capture::{CaptureOptions, Direction, FileSource, Filter, Mode, Source as _};
use ringtap_savefile::ReadOptions;

use crate::errors;
use crate::reader::{Reader, seconds};
use crate::source::Feed;

/// How often a thread that waits for packets looks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Opens a capture file: pcap or pcapng, also compressed with gzip, zstd or lz4.
#[pyfunction]
#[pyo3(signature = (path, filter=None, *, extended=false, count=None))]
pub(crate) fn read(
    path: PathBuf,
    filter: Option<&str>,
    extended: bool,
    count: Option<u64>,
) -> PyResult<Reader> {
    let filter = filter.map(|expression| Filter::new(expression).with_extensions(extended));
    let source = file(&path, filter.as_ref())?;
    let waker = source.waker();
    let feed = Feed::new(Box::new(source), count, None);
    Ok(Reader::new(feed, waker, path.display().to_string()))
}

/// Opens a file as a source.
///
/// # Errors
/// The exception that Python's `open` would raise, or an error of the format or the filter.
pub(crate) fn file(path: &Path, filter: Option<&Filter>) -> PyResult<FileSource> {
    let name = path.display().to_string();
    let opened = File::open(path).map_err(|error| {
        let text = error.to_string();
        let message = text.split(" (os error").next().unwrap_or_default();
        // With these three arguments OSError becomes FileNotFoundError and the like.
        PyOSError::new_err((error.raw_os_error(), message.to_owned(), name.clone()))
    })?;
    FileSource::from_file(opened, &name, &ReadOptions::default(), filter)
        .map_err(|error| errors::of_capture(&error))
}

/// Captures on an interface: NAME, tcx:NAME, xdp:NAME, packet:NAME, xsk:NAME, or any.
#[pyfunction]
#[pyo3(signature = (
    device, filter=None, *, extended=false, count=None, duration=None, snaplen=None, buffer=None,
    promiscuous=true, direction="inout", mode="copy", immediate=false, timeout=0.1
))]
#[expect(
    clippy::too_many_arguments,
    reason = "the options of a capture, by keyword"
)]
pub(crate) fn capture(
    py: Python<'_>,
    device: String,
    filter: Option<&str>,
    extended: bool,
    count: Option<u64>,
    duration: Option<f64>,
    snaplen: Option<u32>,
    buffer: Option<u64>,
    promiscuous: bool,
    direction: &str,
    mode: &str,
    immediate: bool,
    timeout: f64,
) -> PyResult<Reader> {
    let usual = CaptureOptions::default();
    let options = CaptureOptions::default()
        .snaplen(snaplen.unwrap_or(usual.snaplen))
        .buffer(buffer.unwrap_or(usual.buffer))
        .promiscuous(promiscuous)
        .direction(one_of("direction", direction, &DIRECTIONS)?)
        .mode(one_of(
            "mode",
            mode,
            &[("copy", Mode::Copy), ("steal", Mode::Steal)],
        )?)
        .immediate(immediate)
        .timeout(seconds(timeout)?)
        .wait(Some(LOOK));
    let duration = duration.map(seconds).transpose()?;
    let filter = filter.map(|expression| Filter::new(expression).with_extensions(extended));
    let source = py.detach(|| ringtap_capture::open(&device, &options, filter.as_ref()));
    let source = source.map_err(|error| errors::of_capture(&error))?;
    let waker = source.waker();
    Ok(Reader::new(
        Feed::new(source, count, duration),
        waker,
        device,
    ))
}

const DIRECTIONS: [(&str, Direction); 3] = [
    ("in", Direction::In),
    ("out", Direction::Out),
    ("inout", Direction::Both),
];

/// Returns the value of a word.
fn one_of<T: Copy>(option: &str, word: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!(
            "{option} is {word:?}; it must be {}",
            names.join(" or ")
        ))
    })
}
