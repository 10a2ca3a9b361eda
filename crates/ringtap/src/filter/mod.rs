//! `ringtap filter`: prints the program that an expression compiles to, in each of its forms and in words.

mod error;
mod explain;
mod form;
mod link_types;

use std::process::ExitCode;

use ringtap_capture::{Error, Filter, LinkType};
use ringtap_filter::Program;

use crate::cli::{FilterArgs, Target};
use crate::exit::{self, RunError};
use crate::expression;
use crate::output;
use crate::rights::{NamedFiles, Rights};
use error::FilterError;
pub(crate) use form::classic;

/// Runs the command.
pub(crate) fn run(args: &FilterArgs) -> ExitCode {
    let printed = text(args)
        .and_then(|text| output::print(text).map_err(|error| RunError::Print(error).into()));
    exit::code(printed)
}

/// Returns the text that the command prints.
fn text(args: &FilterArgs) -> Result<String, FilterError> {
    if args.list_link_types {
        return Ok(link_types::list());
    }
    let files = NamedFiles {
        inputs: args.expression.filter_file.iter().cloned().collect(),
        ..NamedFiles::default()
    };
    // The expression is the caller's own, and its names are looked up: no sandbox is needed.
    Rights::begin(&args.rights, files, None)?.give_up(&[])?;
    let link_type = link_type(&args.link_type)?;
    let expression = expression::read(&args.expression)?;
    let mut filter = Filter::new(expression)
        .with_optimizer(!args.no_optimize)
        .with_extensions(args.expression.extended)
        .with_processes(true);
    if let Some(netmask) = args.netmask {
        filter = filter.with_netmask(netmask);
    }
    let program = filter.compile(link_type, args.snaplen);
    let program = program.map_err(FilterError::Expression)?;
    let mut text = String::new();
    // An explanation is printed alone, unless a form is requested too.
    if !args.explain || args.dump > 0 || args.target.is_some() {
        text = program_text(&program, args)?;
        if args.explain {
            text.push('\n');
        }
    }
    if args.explain {
        text += &explain::text(&program, link_type, args.hook);
    }
    Ok(text)
}

fn program_text(program: &Program, args: &FilterArgs) -> Result<String, FilterError> {
    match args.target.unwrap_or(Target::Cbpf) {
        Target::Cbpf => Ok(form::classic(program, args.dump)),
        Target::Ebpf => form::ebpf(program, args.hook, args.dump),
        Target::Native => form::native(program, args.dump),
    }
}

/// Returns the link type with this name.
pub(crate) fn link_type(name: &str) -> Result<LinkType, FilterError> {
    LinkType::from_name(name).ok_or_else(|| FilterError::LinkType(name.to_owned()))
}

/// Returns the text of a capture error. A filter error marks the place in the expression.
pub(crate) fn describe(error: &Error) -> String {
    match error {
        Error::Filter {
            expression, error, ..
        } => error.render(expression),
        error => error.to_string(),
    }
}
