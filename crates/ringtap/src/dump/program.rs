//! `ringtap dump -d`: prints the filter's program instead of capturing, for the link type of the device or
//! file. It needs no privilege.

use std::io::{self, Write};
use std::path::Path;

use ringtap_capture::devices::DeviceInfo;
use ringtap_capture::{
    Device, FileSource, Filter, LinkType, Next, ReadOptions, Source as _, devices, open_stream,
};
use ringtap_record::RecordError;

use super::error::{DumpError, UsageError};
use crate::cli::DumpArgs;
use crate::filter::{self, classic};
use crate::input::{InputError, of_opened};
use crate::over_ip;
use crate::rights;
use crate::setup::setup;

/// Prints the program.
pub(crate) fn print(args: &DumpArgs, filter: Option<&Filter>) -> Result<(), DumpError> {
    let everything = Filter::new("");
    let filter = filter.unwrap_or(&everything);
    let snaplen = args.snaplen.unwrap_or(ringtap_packet::MAX_SNAPLEN);
    let program = match (&args.link_type, args.source.read.first()) {
        (Some(name), _) => {
            let link_type = filter::link_type(name)
                .map_err(|_| DumpError::Usage(UsageError::LinkType { name: name.clone() }))?;
            filter.compile(link_type, snaplen)?
        }
        (None, Some(path)) => {
            let source = open(path)?;
            let byte_order = source.reader().byte_order();
            filter.compile_for_file(of_file(source, path)?, byte_order, snaplen)?
        }
        (None, None) => {
            let device = device(args.source.interface.as_deref())?;
            filter.compile(device.link_type, snaplen)?
        }
    };
    let text = classic(&program, args.dump_program);
    let printed = io::stdout().write_all(text.as_bytes());
    printed.map_err(|source| DumpError::Print { packets: 0, source })
}

fn open(path: &Path) -> Result<FileSource, DumpError> {
    let options = ReadOptions::default();
    Ok(match path.to_str() {
        Some("-") => open_stream(Box::new(io::stdin()), "standard input", &options, None)?,
        _ if over_ip::is_server(path) => {
            let opened = over_ip::Connection::open(path);
            let stream = opened.map_err(|source| InputError::Read {
                path: path.to_owned(),
                source,
            })?;
            open_stream(
                Box::new(stream),
                &path.display().to_string(),
                &options,
                None,
            )?
        }
        _ => of_opened(path, rights::read_blocking(path), &options, None)?,
    })
}

/// Returns the link type of the file's first interface.
fn of_file(mut source: FileSource, path: &Path) -> Result<LinkType, DumpError> {
    loop {
        if let Some(interface) = source.interfaces().first() {
            return Ok(interface.link_type);
        }
        if matches!(source.next()?, Next::End) {
            let path = path.to_owned();
            return Err(RecordError::NoLinkType { path }.into());
        }
    }
}

/// Returns a device, or the one that a capture would choose.
pub(super) fn device(given: Option<&str>) -> Result<DeviceInfo, DumpError> {
    let unknown = |error| setup("list the devices", error);
    let name = match given {
        Some(given) => Device::parse(given)?.name.as_bytes().to_vec(),
        None => match devices::default_device().map_err(unknown)? {
            Some(name) => name.as_bytes().to_vec(),
            None => return Err(DumpError::Usage(UsageError::NoDevice)),
        },
    };
    Ok(devices::by_name(name).map_err(unknown)?)
}
