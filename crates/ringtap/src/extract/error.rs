//! Errors that end an extraction, and the exit status.

use std::path::PathBuf;

use ringtap_capture::Error;
use ringtap_record::RecordError;
use ringtap_savefile::WriteError;

use super::remote::RemoteError;
use crate::dump::DumpError;
use crate::record::RecorderError;
use crate::rights::RightsError;
use crate::setup::SetupError;

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
    Dump(#[from] DumpError),
}

impl From<Error> for ExtractError {
    fn from(error: Error) -> Self {
        Self::Dump(error.into())
    }
}

impl From<RecordError> for ExtractError {
    fn from(error: RecordError) -> Self {
        Self::Dump(error.into())
    }
}

impl From<RightsError> for ExtractError {
    fn from(error: RightsError) -> Self {
        Self::Dump(error.into())
    }
}

impl From<SetupError> for ExtractError {
    fn from(error: SetupError) -> Self {
        Self::Dump(error.into())
    }
}

impl ExtractError {
    /// Returns 2 for wrong usage, 1 for other errors.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::InFolder { .. } => crate::exit::USAGE,
            Self::Folder(error) => error.exit_status(),
            Self::Remote(error) => error.exit_status(),
            Self::Dump(error) => error.exit_status(),
            Self::Encode { .. } | Self::Gone | Self::TooLong { .. } => 1,
        }
    }
}
