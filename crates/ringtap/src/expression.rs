//! The filter of a command line: the words of the command line, or a file.

use std::io;
use std::path::PathBuf;

use ringtap_capture::Filter;

use crate::cli::ExpressionArgs;
use crate::rights;

/// A file with an expression that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub(crate) struct UnreadableFile {
    path: PathBuf,
    r#source: io::Error,
}

/// Returns the words, or the content of the file. Empty if there is neither.
pub(crate) fn read(args: &ExpressionArgs) -> Result<String, UnreadableFile> {
    let Some(path) = &args.filter_file else {
        return Ok(args.filter.join(" "));
    };
    match rights::read_blocking(path).and_then(io::read_to_string) {
        Ok(text) => Ok(without_comments(&text)),
        Err(source) => Err(UnreadableFile {
            path: path.clone(),
            source,
        }),
    }
}

/// Returns the filter of an expression, perhaps with extensions of the language. `None` if it is empty.
pub(crate) fn filter(expression: String, is_extended: bool) -> Option<Filter> {
    let is_empty = expression.trim().is_empty();
    (!is_empty).then(|| Filter::new(expression).with_extensions(is_extended))
}

/// Removes comments: lines that begin with `#`. All others make one expression.
fn without_comments(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_a_filter_file_are_left_out() {
        assert_eq!(
            without_comments("# web\ntcp port 80 or\n  # tls\n tcp port 443\n"),
            "tcp port 80 or  tcp port 443"
        );
    }
}
