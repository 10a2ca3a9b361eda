//! `ringtap top` and `ringtap web`: a source, a meter, the live model of [`ringtap_look`], and a view.
//!
//! Data in: packets of a capture or of files, or records of other exporters. They are read and metered on the
//! thread that began ([`pump`]); a thread of its own has the model, and one the view. The views never hold
//! up the meter: a full queue drops updates and counts them.

mod alerts;
mod atlas;
mod error;
mod first;
mod pump;
mod source;
mod taps;
mod top;
mod web;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use ringtap_capture::Filter;
use ringtap_filter::Tables;
use ringtap_look::api::PacketsFrom;
use ringtap_look::{AlertOptions, Atlas, Inlet, Look, LookOptions};
use ringtap_sys::memory;

use crate::cli::{LookArgs, TopArgs, WebArgs};
use crate::exit;
use crate::expression;
use crate::input;
use crate::setup::{lock, spawn};
pub(crate) use alerts::AlertMeter;
use error::LookError;

/// The size from which freed tables go back to the kernel, in bytes. Most tables of a window of time are larger.
const TABLE: u32 = 64 << 10;

/// Runs `ringtap top`.
pub(crate) fn top(mut args: TopArgs) -> ExitCode {
    memory::return_freed(TABLE);
    exit::code(add_lists(&mut args.look).and_then(|()| top::run(&args)))
}

/// Runs `ringtap web`.
pub(crate) fn web(mut args: WebArgs) -> ExitCode {
    memory::return_freed(TABLE);
    exit::code(add_lists(&mut args.look).and_then(|()| web::run(&args)))
}

fn add_lists(args: &mut LookArgs) -> Result<(), LookError> {
    let list = args.source.file_list.as_deref();
    args.source.is_list = input::add_lists(&mut args.source.read, &mut args.filter, list)?;
    Ok(())
}

/// Returns whether packets of the command line's files can be downloaded: those of files that can be read twice.
fn packets_of_files(args: &LookArgs) -> Option<PacketsFrom> {
    let once = args
        .source
        .read
        .iter()
        .any(|path| input::may_be_silent(path));
    (!once).then_some(PacketsFrom::Files)
}

/// Returns the filter of the command line.
fn filter(args: &LookArgs) -> Option<Filter> {
    let filter = expression::filter(args.filter.join(" "), args.extended)?;
    let knows_processes = args.who.is_some() || args.source.interface.is_none();
    Some(filter.with_processes(knows_processes))
}

/// Reads the names of ports and protocols, for filters that a view is given. Names of hosts are not looked up.
fn tables() -> Tables {
    Tables::of_files(|name| match name {
        "services" | "protocols" => {
            std::fs::read_to_string(format!("/etc/{name}")).unwrap_or_default()
        }
        _ => String::new(),
    })
}

/// The model, which views and its thread share.
#[derive(Clone)]
pub(crate) struct Model(Arc<Mutex<Look>>);

impl Model {
    fn new(
        args: &LookArgs,
        source: String,
        packets_from: Vec<PacketsFrom>,
        atlas: Option<Arc<dyn Atlas>>,
    ) -> Self {
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let mut look = Look::new(LookOptions {
            flows: args.listed as usize,
            alerts: AlertOptions {
                fan_out: args.alert_fan_out,
                bits_per_s: args.alert_rate.map(|rate| rate.0),
                ..AlertOptions::default()
            },
            source,
            hostname: hostname.unwrap_or_default().trim().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            is_file: !args.source.read.is_empty(),
            packets_from,
            has_names: true,
            has_processes: args.who.is_some(),
            ..LookOptions::default()
        });
        if let Some(atlas) = atlas {
            look.set_atlas(atlas);
        }
        Self(Arc::new(Mutex::new(look)))
    }

    /// Locks the model, for a short time.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Look> {
        lock(&self.0)
    }

    /// Starts the thread that feeds the model; `ticked` is called about once a second, and at the end with
    /// true.
    fn start(
        &self,
        inlet: Inlet,
        ticked: impl FnMut(bool) + Send + 'static,
    ) -> Result<JoinHandle<()>, LookError> {
        let look = Arc::clone(&self.0);
        Ok(spawn("model", move || inlet.run(&look, ticked))?)
    }
}
