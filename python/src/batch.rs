//! A batch of packets in Python, which Arrow's libraries read without a copy.

use std::ffi::CStr;

use arrow_array::ffi::to_ffi;
use arrow_array::{Array as _, RecordBatch, StructArray};
use arrow_data::ArrayData;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::columns::Columns;
use crate::errors;
use crate::packet::Packet;
use crate::source::Slice;

/// The names of the capsules in Arrow's interface for Python.
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// Packets that were read together: a sequence of packets, and a table of their fields for Arrow, pandas,
/// Polars and NumPy.
#[pyclass(frozen, sequence, module = "ringtap")]
pub(crate) struct Batch {
    slice: Slice,
    columns: Columns,
}

impl Batch {
    pub(crate) fn new(slice: Slice, columns: Columns) -> Self {
        Self { slice, columns }
    }

    /// Returns the table of the packets' fields.
    pub(crate) fn table(&self) -> PyResult<RecordBatch> {
        let Slice { arena, from, to } = &self.slice;
        let batch = self.columns.batch(arena, *from, *to);
        batch.map_err(|error| errors::of_other(&error))
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.slice.to - self.slice.from
    }

    fn __getitem__(&self, index: isize) -> PyResult<Packet> {
        let len = self.slice.to - self.slice.from;
        let at = if index < 0 {
            len.checked_sub(index.unsigned_abs())
        } else {
            Some(index.unsigned_abs())
        };
        let at = at.filter(|&at| at < len);
        let at = at.ok_or_else(|| PyIndexError::new_err("no such packet in the batch"))?;
        Ok(Packet::new(self.slice.arena.clone(), self.slice.from + at))
    }

    /// Arrow's interface for Python: the schema and the columns, as capsules.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        let batch = py.detach(|| self.table())?;
        capsules(py, &StructArray::from(batch).into_data())
    }

    /// Returns the fields as a `pyarrow.RecordBatch`.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let arrow = slf.py().import("pyarrow")?;
        arrow.call_method1("record_batch", (slf,))
    }

    /// Returns the fields as a `pandas.DataFrame`.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_arrow(slf)?.call_method0("to_pandas")
    }

    /// Returns the fields as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let polars = slf.py().import("polars")?;
        polars.call_method1("DataFrame", (slf,))
    }

    /// Returns the fields as a dict of NumPy arrays.
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let (py, batch) = (slf.py(), Self::to_arrow(slf)?);
        let names = batch.getattr("schema")?.getattr("names")?;
        let (arrays, lenient) = (PyDict::new(py), PyDict::new(py));
        lenient.set_item("zero_copy_only", false)?;
        for name in names.try_iter()? {
            let name = name?;
            let column = batch.call_method1("column", (&name,))?;
            arrays.set_item(&name, column.call_method("to_numpy", (), Some(&lenient))?)?;
        }
        Ok(arrays)
    }
}

/// Returns the two capsules of an array.
pub(crate) fn capsules<'py>(py: Python<'py>, data: &ArrayData) -> PyResult<Bound<'py, PyTuple>> {
    let (array, schema) = to_ffi(data).map_err(|error| errors::of_other(&error))?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    PyTuple::new(py, [schema, array])
}
