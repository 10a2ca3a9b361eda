//! The error of the setup before a command runs: signals, threads, descriptors.

/// Something that a run needs could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub(crate) struct SetupError {
    what: &'static str,
    r#source: Box<dyn std::error::Error + Send + Sync>,
}

/// Returns the error for a failed setup step, with its cause.
pub(crate) fn setup(
    what: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SetupError {
    SetupError {
        what,
        source: source.into(),
    }
}
