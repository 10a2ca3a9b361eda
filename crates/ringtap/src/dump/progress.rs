//! The progress bar: only on a terminal, only while a large file becomes another file.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Files smaller than this are done before anyone would look, in bytes.
const WORTH_SHOWING: u64 = 64 << 20;
const REDRAW: Duration = Duration::from_millis(200);

/// Progress through the input files, by bytes of them that were consumed.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    done_before: u64,
}

impl Progress {
    /// A bar over the files' sizes; one that shows nothing where it would be in the way.
    pub(crate) fn new(files: &[&Path], to_file: bool) -> Self {
        let size: u64 = files
            .iter()
            .filter_map(|file| file.metadata().ok())
            .map(|m| m.len())
            .sum();
        let shown = to_file && size >= WORTH_SHOWING && io::stderr().is_terminal();
        let bar = if shown {
            ProgressBar::new(size)
        } else {
            ProgressBar::hidden()
        };
        if shown {
            bar.set_style(style());
            bar.enable_steady_tick(REDRAW);
        }
        Self {
            bar,
            done_before: 0,
        }
    }

    /// `offset` bytes of the present file are consumed.
    pub(crate) fn at(&self, offset: u64) {
        self.bar.set_position(self.done_before + offset);
    }

    /// The present file, of which `size` bytes were consumed, is done.
    pub(crate) fn next_file(&mut self, size: u64) {
        self.done_before += size;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    const TEMPLATE: &str = "{bar:30} {percent}% {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
    ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar())
}
