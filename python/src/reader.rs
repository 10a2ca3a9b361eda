//! A reader of packets in Python: of files and of interfaces.

use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use ringtap_capture::{Stats, Waker};

use crate::batch::Batch;
use crate::columns::Columns;
use crate::errors;
use crate::packet::Packet;
use crate::source::{Feed, Found, Slice};

/// Packets that are read at once for iteration and for tables.
const USUAL: usize = 65_536;
/// The name of a stream's capsule in Arrow's interface for Python.
const STREAM: &CStr = c"arrow_array_stream";

/// Reads packets from a file or an interface: an iterator, a context manager, and an asynchronous iterator.
#[pyclass(frozen, module = "ringtap")]
pub(crate) struct Reader {
    /// `None` after `close()`.
    feed: Arc<Mutex<Option<Feed>>>,
    /// Packets for iteration.
    current: Mutex<Option<Slice>>,
    waker: Waker,
    name: String,
}

impl Reader {
    pub(crate) fn new(feed: Feed, waker: Waker, name: String) -> Self {
        Self {
            feed: Arc::new(Mutex::new(Some(feed))),
            current: Mutex::new(None),
            waker,
            name,
        }
    }

    /// Returns the next packets, at most `most`; `None` at the end. It waits without Python's lock, and
    /// looks for signals each time that the source gives up waiting. `Found::Nothing` after `patience`.
    fn wait(&self, py: Python<'_>, most: usize, patience: Option<Duration>) -> PyResult<Found> {
        let end = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let found = py.detach(|| take(&self.feed, most));
            match found.map_err(|error| errors::of_capture(&error))? {
                Found::Nothing if end.is_none_or(|end| Instant::now() < end) => {
                    py.check_signals()?;
                }
                found => return Ok(found),
            }
        }
    }

    /// Returns the next packet for iteration that is in memory.
    fn in_memory(&self) -> Option<Packet> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let slice = current.as_mut().filter(|slice| slice.from < slice.to)?;
        slice.from += 1;
        Some(Packet::new(Arc::clone(&slice.arena), slice.from - 1))
    }

    fn with_feed<T>(
        &self,
        py: Python<'_>,
        of: impl Fn(&mut Feed) -> PyResult<T> + Sync,
    ) -> PyResult<T>
    where
        T: Send,
    {
        py.detach(|| {
            let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
            let feed = feed.as_mut();
            of(feed.ok_or_else(|| PyValueError::new_err("the reader is closed"))?)
        })
    }
}

fn take(feed: &Mutex<Option<Feed>>, most: usize) -> Result<Found, ringtap_capture::Error> {
    let mut feed = feed.lock().unwrap_or_else(PoisonError::into_inner);
    feed.as_mut().map_or(Ok(Found::End), |feed| feed.take(most))
}

#[pymethods]
impl Reader {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Packet>> {
        loop {
            if let Some(packet) = self.in_memory() {
                return Ok(Some(packet));
            }
            match self.wait(py, USUAL, None)? {
                Found::Packets(slice) => {
                    let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
                    *current = Some(slice);
                }
                Found::Nothing | Found::End => return Ok(None),
            }
        }
    }

    fn __aiter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("ringtap._asynchronous")?;
        module.call_method1("Packets", (slf,))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        format!("<ringtap.Reader of {}>", self.name)
    }

    /// Ends the capture or closes the file. A thread that waits for packets gets the end.
    fn close(&self) {
        self.waker.wake();
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        *feed = None;
        drop(feed);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = None;
    }

    /// Returns the next packets as a batch, or None at the end.
    ///
    /// `timeout` is in seconds; an empty batch is returned if no packet came in time.
    #[pyo3(signature = (size=USUAL, *, timeout=None, fields=None))]
    fn batch(
        &self,
        py: Python<'_>,
        size: usize,
        timeout: Option<f64>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Option<Batch>> {
        let columns = Columns::of(fields.as_deref()).map_err(PyValueError::new_err)?;
        let patience = timeout.map(seconds).transpose()?;
        if size == 0 {
            return Err(PyValueError::new_err("a batch has at least one packet"));
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = current.as_mut().filter(|rest| rest.from < rest.to) {
            let from = rest.from;
            rest.from = rest.to.min(from.saturating_add(size));
            let (arena, to) = (Arc::clone(&rest.arena), rest.from);
            return Ok(Some(Batch::new(Slice { arena, from, to }, columns)));
        }
        drop(current);
        match self.wait(py, size, patience)? {
            Found::Packets(slice) => Ok(Some(Batch::new(slice, columns))),
            Found::Nothing => {
                let nothing = Slice {
                    arena: Arc::default(),
                    from: 0,
                    to: 0,
                };
                Ok(Some(Batch::new(nothing, columns)))
            }
            Found::End => Ok(None),
        }
    }

    /// Returns an iterator of batches with at most `size` packets.
    #[pyo3(signature = (size=USUAL, *, fields=None))]
    fn batches<'py>(
        slf: &Bound<'py, Self>,
        size: usize,
        fields: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("ringtap._batches")?;
        module.call_method1("batches", (slf, size, fields))
    }

    /// Arrow's interface for Python: all packets to the end, as a stream of batches.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let columns = Columns::of(None).map_err(PyValueError::new_err)?;
        self.stream(py, columns)
    }

    /// Reads all packets to the end into a `pyarrow.Table`.
    #[pyo3(signature = (fields=None))]
    fn to_arrow<'py>(
        slf: &Bound<'py, Self>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let columns = Columns::of(fields.as_deref()).map_err(PyValueError::new_err)?;
        let stream = slf.get().stream(py, columns)?;
        let wrapper = py
            .import("ringtap._batches")?
            .call_method1("Stream", (stream,))?;
        py.import("pyarrow")?.call_method1("table", (wrapper,))
    }

    /// Reads all packets to the end into a `pandas.DataFrame`.
    #[pyo3(signature = (fields=None))]
    fn to_pandas<'py>(
        slf: &Bound<'py, Self>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::to_arrow(slf, fields)?.call_method0("to_pandas")
    }

    /// Reads all packets to the end into a `polars.DataFrame`.
    #[pyo3(signature = (fields=None))]
    fn to_polars<'py>(
        slf: &Bound<'py, Self>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let table = Self::to_arrow(slf, fields)?;
        slf.py()
            .import("polars")?
            .call_method1("from_arrow", (table,))
    }

    /// The interfaces of the file or the capture so far, as dicts with `name` and `link_type`.
    #[getter]
    fn interfaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let found = self.with_feed(py, |feed| {
            let interfaces = feed.source().interfaces().iter();
            Ok(interfaces
                .map(|interface| (interface.name.clone(), interface.link_type.to_string()))
                .collect::<Vec<_>>())
        })?;
        let list = PyList::empty(py);
        for (name, link_type) in found {
            let dict = PyDict::new(py);
            dict.set_item("name", name)?;
            dict.set_item("link_type", link_type)?;
            list.append(dict)?;
        }
        Ok(list)
    }

    /// The counters of the capture: `received`, and the packets that were lost, by the place where they were
    /// counted. None means that the number is unknown.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with_feed(py, |feed| {
            feed.source()
                .stats()
                .map_err(|error| errors::of_capture(&error))
        })?;
        counters(py, &stats)
    }

    /// Returns how the capture works: engine, clock, memory, filter, and what it cannot see.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        self.with_feed(py, |feed| Ok(feed.source().describe().to_string()))
    }
}

impl Reader {
    /// Returns the capsule of a stream that reads to the end.
    fn stream<'py>(&self, py: Python<'py>, columns: Columns) -> PyResult<Bound<'py, PyCapsule>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = Rest {
            first: current.take().filter(|slice| slice.from < slice.to),
            feed: Arc::clone(&self.feed),
            columns,
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(rest));
        PyCapsule::new_with_value(py, stream, STREAM)
    }
}

/// The packets up to the end, as batches of Arrow.
struct Rest {
    first: Option<Slice>,
    feed: Arc<Mutex<Option<Feed>>>,
    columns: Columns,
}

impl Iterator for Rest {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let slice = match self.first.take() {
            Some(slice) => slice,
            None => loop {
                match take(&self.feed, USUAL) {
                    Ok(Found::Packets(slice)) => break slice,
                    Ok(Found::Nothing) => {}
                    Ok(Found::End) => return None,
                    Err(error) => return Some(Err(ArrowError::ExternalError(Box::new(error)))),
                }
            },
        };
        Some(self.columns.batch(&slice.arena, slice.from, slice.to))
    }
}

impl RecordBatchReader for Rest {
    fn schema(&self) -> SchemaRef {
        self.columns.schema()
    }
}

/// Returns a duration of seconds.
///
/// # Errors
/// It is negative, or not a number.
pub(crate) fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|error| PyValueError::new_err(format!("{value} seconds: {error}")))
}

fn counters<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dropped = PyDict::new(py);
    let layers = [
        ("interface", stats.dropped.interface),
        ("before_hook", stats.dropped.before_hook),
        ("hook", stats.dropped.hook),
        ("sampling", stats.dropped.sampling),
        ("ring", stats.dropped.ring),
        ("application", stats.dropped.application),
    ];
    for (layer, count) in layers {
        dropped.set_item(layer, count)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("received", stats.received)?;
    dict.set_item("clamped", stats.clamped)?;
    dict.set_item("dropped", dropped)?;
    Ok(dict)
}
