//! `ringtap filter`: the program that an expression compiles to.

use std::io::{self, Write};
use std::process::ExitCode;

use ringtap_capture::{Error, Filter, LinkType};
use ringtap_filter::disasm;

use crate::cli::FilterArgs;
use crate::notice::notice;

/// Runs the command.
pub(crate) fn run(args: &FilterArgs) -> ExitCode {
    let Some(link_type) = LinkType::from_name(&args.link_type) else {
        notice(format_args!(
            "unknown link type {:?}; see docs/filter.md",
            args.link_type
        ));
        return ExitCode::from(2);
    };
    let program = match Filter::new(args.filter.join(" ")).compile(link_type, args.snaplen) {
        Ok(program) => program,
        Err(error) => {
            notice(describe(&error));
            return ExitCode::from(2);
        }
    };
    let text = match args.dump {
        0 | 1 => disasm::listing(&program),
        2 => disasm::c_array(&program),
        _ => disasm::decimal(&program),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notice(format_args!("standard output: {error}"));
            ExitCode::from(1)
        }
    }
}

/// An error of a capture; that of a filter with the place in the expression marked.
pub(crate) fn describe(error: &Error) -> String {
    match error {
        Error::Filter {
            expression, error, ..
        } => error.render(expression),
        error => error.to_string(),
    }
}
