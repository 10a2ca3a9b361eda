//! Errors that end an extraction, and the exit status.

use std::path::PathBuf;

use ringtap_savefile::WriteError;

use super::remote::RemoteError;
use crate::dump::DumpError;
use crate::exit::{Ends, USAGE};
use crate::record::RecorderError;

/// The unsuccessful end of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExtractError {
    /// The output would be in the folder of a recorder.
    #[error("-w {}: {} is the folder of the recorder; write elsewhere", path.display(), folder.display())]
    InFolder { path: PathBuf, folder: PathBuf },
    /// A folder cannot be read.
    #[error(transparent)]
    Folder(#[from] RecorderError),
    /// Another host's recorder does not answer.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The packets cannot be encoded.
    #[error("the packets cannot be encoded: {source}")]
    Encode { r#source: WriteError },
    /// Nobody takes the answer any more.
    #[error("nobody takes the answer any more")]
    Gone,
    /// The answer has more bytes than allowed.
    #[error("the answer has more than {most} bytes")]
    TooLong { most: u64 },
    /// The filter does not fit, or the output failed, as in `dump`.
    #[error(transparent)]
    Dump(DumpError),
}

impl<E: Into<DumpError>> From<E> for ExtractError {
    fn from(error: E) -> Self {
        Self::Dump(error.into())
    }
}

impl Ends for ExtractError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::InFolder { .. } => USAGE,
            Self::Folder(error) => error.exit_status(),
            Self::Remote(error) => error.exit_status(),
            Self::Dump(error) => error.exit_status(),
            Self::Encode { .. } | Self::Gone | Self::TooLong { .. } => 1,
        }
    }
}
