//! Errors of a query, and its exit status.

use std::io;
use std::path::PathBuf;

use datafusion::error::DataFusionError;

/// The unsuccessful end of a query.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    /// A question that is neither SQL nor one of the ready ones.
    #[error("unknown question {question:?}; ready ones are: {known}", known = crate::questions::NAMES)]
    Question {
        /// The words.
        question: String,
    },
    /// The folder is no store, or it cannot be read.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The system's error.
        r#source: io::Error,
    },
    /// The folder has no store's lock file.
    #[error("{}: no store of flow records (ringtap flow --store makes one)", path.display())]
    NoStore {
        /// The folder.
        path: PathBuf,
    },
    /// A bucket of S3 cannot be read.
    #[error("{url}: {source}{hint}")]
    Bucket {
        /// The place in it.
        url: String,
        /// The setting that is probably missing.
        hint: &'static str,
        /// The error of the request.
        r#source: object_store::Error,
    },
    /// A bucket has nothing of a store at that place.
    #[error("{url}: no files of a store of flow records there")]
    EmptyBucket {
        /// The place in it.
        url: String,
    },
    /// A copy in a bucket has records twice.
    #[error(
        "{url}/{leaf} has merged files and those that they were made of; copy that day again with an option that deletes \
         what the store no longer has, such as aws s3 sync --delete"
    )]
    Unfinished {
        /// The place in the bucket.
        url: String,
        /// The folder of the hour and the exporter.
        leaf: String,
    },
    /// The query ran longer than allowed.
    #[error("the query was ended after {seconds} seconds (--timeout)")]
    TimedOut {
        /// The limit.
        seconds: f64,
    },
    /// Threads could not be started.
    #[error("cannot start threads: {0}")]
    Runtime(io::Error),
    /// Printing failed.
    #[error("standard output: {0}")]
    Print(io::Error),
    /// A file was removed while the query read it.
    #[error("a file was removed by age or size while the query ran; ask again ({0})")]
    Removed(String),
    /// The query is wrong, or it failed.
    #[error("{0}")]
    Engine(String),
    /// The query needs more memory than allowed.
    #[error("{0}; --memory allows more")]
    Memory(String),
    /// The query is wrong.
    #[error("{0}")]
    Sql(String),
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        let text = error.strip_backtrace();
        match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => Self::Memory(text),
            DataFusionError::Plan(_)
            | DataFusionError::SQL(..)
            | DataFusionError::SchemaError(..) => Self::Sql(text),
            DataFusionError::ObjectStore(error)
                if matches!(**error, datafusion::object_store::Error::NotFound { .. }) =>
            {
                Self::Removed(text)
            }
            _ => Self::Engine(text),
        }
    }
}

impl QueryError {
    /// Returns 2 for a wrong question, 1 for other errors.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Question { .. } | Self::Sql(_) => 2,
            _ => 1,
        }
    }
}
