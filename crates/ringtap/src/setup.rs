//! The error of what has to be set up before a command can run: signals, threads, descriptors.

/// Something that a run needs could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub(crate) struct SetupError {
    what: &'static str,
    r#source: Box<dyn std::error::Error + Send + Sync>,
}

/// The error of what could not be done, with its cause.
pub(crate) fn setup(
    what: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SetupError {
    SetupError {
        what,
        source: source.into(),
    }
}
