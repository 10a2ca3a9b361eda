//! The rows of an answer on standard output. Addresses of 16 bytes are printed as text, except in Arrow.

use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::LineDelimitedWriter;
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::Format;
use crate::error::QueryError;
use crate::functions;

/// Prints the rows as they come; a table once it is complete, since its columns have the width of the widest value.
pub(crate) async fn print(
    rows: SendableRecordBatchStream,
    format: Format,
) -> Result<(), QueryError> {
    let schema = rows.schema();
    let mut rows = match format {
        Format::Arrow => rows,
        _ => {
            let shown = rows.map(|batch| batch.and_then(|batch| readable(&batch)));
            let schema = Arc::new(readable_schema(&schema));
            Box::pin(RecordBatchStreamAdapter::new(schema, shown))
        }
    };
    let mut output = BufWriter::new(io::stdout().lock());
    let printed = match format {
        Format::Table => {
            let schema = rows.schema();
            let mut batches: Vec<RecordBatch> = rows.try_collect().await?;
            if batches.is_empty() {
                batches.push(RecordBatch::new_empty(schema));
            }
            let text = pretty_format_batches(&batches).map_err(print_error);
            text.and_then(|text| writeln!(output, "{text}").map_err(QueryError::Print))
        }
        Format::Json => {
            let mut writer = LineDelimitedWriter::new(&mut output);
            let mut written = Ok(());
            while let (Ok(()), Some(batch)) = (&written, rows.try_next().await?) {
                written = writer.write(&batch).map_err(print_error);
            }
            written.and_then(|()| writer.finish().map_err(print_error))
        }
        Format::Csv => {
            let mut writer = csv::Writer::new(&mut output);
            let mut written = writer.write(&RecordBatch::new_empty(rows.schema()));
            while let (Ok(()), Some(batch)) = (&written, rows.try_next().await?) {
                written = writer.write(&batch);
            }
            written.map_err(print_error)
        }
        Format::Arrow => {
            let mut writer = StreamWriter::try_new(&mut output, &schema).map_err(print_error)?;
            let mut written = Ok(());
            while let (Ok(()), Some(batch)) = (&written, rows.try_next().await?) {
                written = writer.write(&batch).map_err(print_error);
            }
            written.and_then(|()| writer.finish().map_err(print_error))
        }
    };
    let printed = printed.and_then(|()| output.flush().map_err(QueryError::Print));
    match printed {
        // The reader has closed the pipe.
        Err(QueryError::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

fn print_error(error: ArrowError) -> QueryError {
    match error {
        ArrowError::IoError(_, source) => QueryError::Print(source),
        error => QueryError::Engine(error.to_string()),
    }
}

fn is_address(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(16)
}

fn readable_schema(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| match is_address(field) {
        true => Field::new(field.name(), DataType::Utf8, field.is_nullable()),
        false => field.as_ref().clone(),
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Returns a batch with texts instead of addresses.
fn readable(batch: &RecordBatch) -> Result<RecordBatch, datafusion::error::DataFusionError> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, column)| match is_address(field) {
        true => functions::texts(column),
        false => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(
        Arc::new(readable_schema(&schema)),
        columns,
    )?)
}
