//! Flows in Python: a file is metered, and its records are columns of Arrow.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, UInt64Builder};
use arrow_array::{
    Array as _, ArrayRef, RecordBatch, StructArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field as Column, Schema, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ringtap_capture::{Filter, LinkType, Next, Source as _};
use ringtap_flow::schema::{Field, Fields, Group, Kind, Row, Value};
use ringtap_flow::{FlowRecord, Meter, MeterOptions, Packet};
use ringtap_inspect::InspectOptions;

use crate::batch::capsules;
use crate::errors;
use crate::open;

/// The flow records of a file: a table for Arrow, pandas and Polars.
#[pyclass(frozen, module = "ringtap")]
pub(crate) struct Flows {
    table: RecordBatch,
}

/// Meters the flows of a capture file.
///
/// `fields` are names or groups, as those of `ringtap flow --fields`. With `biflow` a record has both
/// directions.
#[pyfunction]
#[pyo3(signature = (path, filter=None, *, fields="basic", biflow=true))]
pub(crate) fn flows(
    py: Python<'_>,
    path: PathBuf,
    filter: Option<&str>,
    fields: &str,
    biflow: bool,
) -> PyResult<Flows> {
    let parsed = Fields::parse(fields);
    let fields = parsed.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let filter = filter.map(Filter::new);
    let table = py.detach(|| meter(&path, filter.as_ref(), fields, biflow))?;
    Ok(Flows { table })
}

fn meter(
    path: &std::path::Path,
    filter: Option<&Filter>,
    fields: Fields,
    biflow: bool,
) -> PyResult<RecordBatch> {
    let mut source = open::file(path, filter)?;
    let options = MeterOptions::default()
        .both_ways(biflow)
        .measure_tcp(fields.has_any_of(Group::Tcp))
        .inspect(fields.needs_payload().then(InspectOptions::default));
    let mut meter = Meter::new(&options).map_err(|error| errors::of_other(&error))?;
    let mut table = Table::new(fields);
    let mut sink = |record: &FlowRecord| table.push(record);
    loop {
        let links: Vec<LinkType> = source
            .interfaces()
            .iter()
            .map(|one| one.link_type)
            .collect();
        match source.next().map_err(|error| errors::of_capture(&error))? {
            Next::Block(block) => {
                for packet in &block {
                    let link = links.get(packet.interface as usize);
                    let packet = Packet {
                        data: packet.data,
                        len: packet.len,
                        time_ns: u64::try_from(packet.timestamp.as_nanos()).unwrap_or_default(),
                        link: link.copied().unwrap_or(LinkType::ETHERNET),
                        input: packet.interface.saturating_add(1),
                    };
                    meter.push(&packet, &mut sink);
                }
            }
            Next::End => break,
            _ => {}
        }
    }
    meter.flush(&mut sink);
    table.finish()
}

/// The values of a column.
enum Values {
    Times(Vec<Option<i64>>),
    Numbers(UInt64Builder),
    Texts(StringBuilder),
}

/// Columns that grow by records.
struct Table {
    columns: Vec<(&'static Field, Values)>,
}

impl Table {
    fn new(fields: Fields) -> Self {
        let columns = fields.columns().filter(|field| field.in_files);
        let columns = columns.map(|field| {
            let values = match field.kind {
                Kind::Time => Values::Times(Vec::new()),
                Kind::Number | Kind::Code => Values::Numbers(UInt64Builder::new()),
                Kind::Address | Kind::Mac | Kind::Text => Values::Texts(StringBuilder::new()),
            };
            (field, values)
        });
        Self {
            columns: columns.collect(),
        }
    }

    fn push(&mut self, record: &FlowRecord) {
        let row = Row::new(record);
        for (field, values) in &mut self.columns {
            values.push(field.value(&row));
        }
    }

    fn finish(self) -> PyResult<RecordBatch> {
        let (mut columns, mut arrays) = (Vec::new(), Vec::new());
        for (field, values) in self.columns {
            let (kind, array) = values.finish();
            columns.push(Column::new(field.name, kind, true));
            arrays.push(array);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(columns)), arrays);
        batch.map_err(|error| errors::of_other(&error))
    }
}

impl Values {
    fn push(&mut self, value: Option<Value<'_>>) {
        match self {
            Self::Times(times) => times.push(match value {
                Some(Value::Time(nanos)) => i64::try_from(nanos).ok(),
                _ => None,
            }),
            Self::Numbers(numbers) => numbers.append_option(match value {
                Some(Value::Number(number)) => Some(number),
                Some(Value::Code(code)) => Some(u64::from(code)),
                _ => None,
            }),
            Self::Texts(texts) => match value {
                Some(Value::Text(text)) => texts.append_value(text),
                Some(Value::Address(address)) => texts.append_value(address.to_string()),
                Some(Value::Mac([a, b, c, d, e, f])) => {
                    texts.append_value(format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"));
                }
                _ => texts.append_null(),
            },
        }
    }

    fn finish(self) -> (DataType, ArrayRef) {
        match self {
            Self::Times(times) => (
                DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
                Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
            ),
            Self::Numbers(mut numbers) => {
                let array: UInt64Array = numbers.finish();
                (DataType::UInt64, Arc::new(array))
            }
            Self::Texts(mut texts) => (DataType::Utf8, Arc::new(texts.finish())),
        }
    }
}

#[pymethods]
impl Flows {
    fn __len__(&self) -> usize {
        self.table.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<ringtap.Flows: {} records>", self.table.num_rows())
    }

    /// Arrow's interface for Python: the schema and the columns, as capsules.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        capsules(py, &StructArray::from(self.table.clone()).into_data())
    }

    /// Returns the records as a `pyarrow.RecordBatch`.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("pyarrow")?
            .call_method1("record_batch", (slf,))
    }

    /// Returns the records as a `pandas.DataFrame`.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_arrow(slf)?.call_method0("to_pandas")
    }

    /// Returns the records as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }
}
