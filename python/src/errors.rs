//! Errors as Python's exceptions.

use pyo3::exceptions::{PyException, PyPermissionError};
use pyo3::{PyErr, create_exception};

create_exception!(
    ringtap,
    Error,
    PyException,
    "A capture, a file or an interface failed."
);
create_exception!(
    ringtap,
    FilterError,
    Error,
    "A filter expression is invalid; the message shows the place."
);

/// Returns the exception for an error of a source.
pub(crate) fn of_capture(error: &ringtap_capture::Error) -> PyErr {
    let text = with_causes(error);
    match error {
        ringtap_capture::Error::Filter {
            error, expression, ..
        } => FilterError::new_err(error.render(expression)),
        ringtap_capture::Error::NotPermitted { .. } => PyPermissionError::new_err(text),
        _ => Error::new_err(text),
    }
}

/// Returns the exception for an error of sending.
pub(crate) fn of_sending(error: &ringtap_send::SendError) -> PyErr {
    let text = with_causes(error);
    match error {
        ringtap_send::SendError::NotPermitted { .. } => PyPermissionError::new_err(text),
        _ => Error::new_err(text),
    }
}

/// Returns the exception for any other error.
pub(crate) fn of_other(error: &dyn std::error::Error) -> PyErr {
    Error::new_err(with_causes(error))
}

/// Returns the message of an error, with those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}
