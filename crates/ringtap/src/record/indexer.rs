//! Makes the indices of complete files, one by one, with the lowest share of the processors.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use ringtap_record::archive::{Archive, Completed};
use ringtap_sys::output::Access;
use ringtap_sys::sched;

use crate::dump::Index;
use crate::notice::{Fields, warning};
use crate::setup::{SetupError, setup};

/// The lowest share of the processors (nice(2)).
const NICE: u8 = 19;

/// The thread that makes indices.
pub(super) struct Indexer {
    thread: JoinHandle<()>,
}

impl Indexer {
    /// Starts the thread, which ends when the sender is gone. Call it after privileges were given up.
    pub(super) fn start(
        archive: Arc<Archive>,
        access: Access,
    ) -> Result<(Self, Sender<Completed>), SetupError> {
        let (sender, files) = channel::<Completed>();
        let work = move || {
            // With its ordinary share it works too.
            let _ = sched::set_nice(NICE);
            for file in files {
                let made = Index::prepare(&file.path, access)
                    .and_then(|mut index| index.make(file.seek_points, true));
                let is_there = archive.indexed(&file.path);
                if let (Err(error), true) = (made, is_there) {
                    let name = file.path.display();
                    warning(
                        &Fields::default(),
                        format_args!("{name}: no index: {error}"),
                    );
                }
            }
        };
        let thread = thread::Builder::new().name("index".into()).spawn(work);
        let thread = thread.map_err(|source| setup("start the thread for indices", source))?;
        Ok((Self { thread }, sender))
    }

    /// Waits until all indices are made.
    pub(super) fn finish(self) {
        // A panic was reported when it happened.
        let _ = self.thread.join();
    }
}
