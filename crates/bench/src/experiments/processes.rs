//! One, two and three captures of the same packets at once.

use ringtap_lab::Need;

use super::deliver::{METRICS, contenders, figures};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, LoadPace, READER, Stage};

/// Packets a second; Braun and others had 1,270,000.
const RATE: u32 = 1_270_000;
const PACKETS: u32 = 1_270_000;
const QUICK_PACKETS: u32 = 500_000;
const SIZE: u16 = 64;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let readers = contenders(session, 1);
    let names: Vec<&str> = readers.iter().map(|(name, _)| *name).collect();
    let captures = Axis::linear("captures at once", "");
    session.figure("Several captures of 1,270,000 packets/s", captures, METRICS);
    let stage = Stage::new()?;
    let load = Load::top(SIZE, session.amount(PACKETS, QUICK_PACKETS));
    let load = load.paced(LoadPace::Rate(RATE));
    for count in 1..=3_u8 {
        let title = format!("{count} at once");
        let at = Some(f64::from(count));
        session.case(&title, at, &names, names.len() - 1, |who| {
            let readers = vec![readers[who].1.clone(); count.into()];
            let (sent, seen) = stage.run(load, &readers, &[READER])?;
            Ok(figures(sent, &seen))
        })?;
    }
    Ok(())
}
