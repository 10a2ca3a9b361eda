//! The progress bar: on a terminal only, with the remaining time.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const REDRAW: Duration = Duration::from_millis(200);

/// Progress of the sending.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Returns a bar up to `total`, which may be unknown. It is invisible if it would disturb other output.
    pub(crate) fn new(total: Option<u64>) -> Self {
        if !io::stderr().is_terminal() {
            return Self {
                bar: ProgressBar::hidden(),
            };
        }
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::new_spinner(),
        };
        let template = match total {
            None => "{spinner} {msg}, {elapsed}",
            Some(_) => "{bar:30} {percent}% {msg}, {eta} left",
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(REDRAW);
        Self { bar }
    }

    /// Returns whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    pub(crate) fn at(&self, position: u64) {
        self.bar.set_position(position);
    }

    pub(crate) fn message(&self, text: String) {
        self.bar.set_message(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
