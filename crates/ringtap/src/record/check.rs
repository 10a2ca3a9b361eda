//! `ringtap record check`: compares all chunks with their checksums.

use std::io::{self, Write as _};
use std::process::ExitCode;

use ringtap_record::archive::{Finding, Window, check};

use super::error::RecorderError;
use super::folder::{Names, Opener, catalogue, read_files};
use crate::cli::CheckArgs;
use crate::exit::RunError;
use crate::notice::{counted, notice};
use crate::rights::{Needs, Rights};

/// Runs the check. The exit status is 1 if anything is damaged.
pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, RecorderError> {
    let folder = std::slice::from_ref(&args.dir);
    let rights = Rights::begin(&args.rights, read_files(folder), None)?;
    let names = Names::of(&args.dir)?;
    rights.relinquish(&[], Needs::default())?;
    let listing = catalogue(&names, Window::default())?;
    let (mut files, mut chunks, mut bytes) = (0, 0, 0);
    let (mut damaged, mut unlisted) = (0, 0);
    let mut printed = Ok(());
    let result = check(&Opener::default(), &args.dir, &listing, &mut |finding| {
        let line = match finding {
            Finding::Damaged { name, chunk } => {
                damaged += 1;
                let (offset, end) = (chunk.offset, chunk.end());
                let packets = counted(chunk.packets.into(), "packet");
                format!("{name}: bytes {offset} to {end} are damaged: {packets}\n")
            }
            // The oldest file may be removed meanwhile.
            Finding::Unreadable { name, error } => {
                damaged += 1;
                format!("{name}: {error}\n")
            }
            Finding::Unlisted { name } => {
                unlisted += 1;
                format!("{name}: its chunks are not in the catalogue, and it was not checked\n")
            }
            Finding::Checked {
                chunks: count,
                bytes: read,
                ..
            } => {
                (files, chunks, bytes) = (files + 1, chunks + count, bytes + read);
                return true;
            }
            _ => return true,
        };
        printed = io::stdout().write_all(line.as_bytes());
        printed.is_ok()
    });
    result.map_err(RecorderError::folder(&args.dir))?;
    printed.map_err(RunError::Print)?;
    if listing.damaged > 0 {
        notice(format_args!(
            "the catalogue is damaged in {}",
            counted(listing.damaged, "place")
        ));
    }
    notice(format_args!(
        "{}, {}, {bytes} bytes: {damaged} damaged, {} not checked",
        counted(files, "file"),
        counted(chunks, "chunk"),
        counted(unlisted, "file")
    ));
    Ok(match damaged + listing.damaged {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
