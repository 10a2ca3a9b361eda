//! The processes at the ends of a flow, as an exporter of ringtap's has sent them.
//!
//! Data in: ringtap's own elements from 70 to 79, in any order. Data out: a process for each end that has one.

use std::sync::Arc;

use ringtap_flow::Process;

use super::fields::unsigned;

/// The processes so far, of source and destination.
#[derive(Debug, Default)]
pub(super) struct Ends([Process; 2]);

impl Ends {
    /// Takes an element of ringtap's own; returns whether it is one of these fields.
    pub(super) fn element(&mut self, id: u16, bytes: &[u8]) -> bool {
        if !(70..80).contains(&id) {
            return false;
        }
        // Those of the source have even numbers.
        let process = &mut self.0[usize::from(id % 2)];
        let number = || u32::try_from(unsigned(bytes)?).ok();
        match id {
            70 | 71 => process.pid = number().unwrap_or(0),
            72 | 73 => process.name = Process::text(bytes),
            74 | 75 => process.uid = number().filter(|&uid| uid != u32::MAX),
            76 | 77 => process.container = Process::text(bytes),
            _ => process.cgroup = Process::text(bytes),
        }
        true
    }

    /// Returns the processes. No process has the number 0.
    pub(super) fn finish(self) -> [Option<Arc<Process>>; 2] {
        self.0
            .map(|process| (process.pid != 0).then(|| Arc::new(process)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_own() {
        let mut ends = Ends::default();
        for (id, bytes) in [
            (71, &[0, 0, 4, 210][..]),
            (73, b"nginx\x1b"),
            (75, &[0xff; 4]),
            (79, b"/a"),
            (74, &[0, 0, 0, 0]),
        ] {
            assert!(ends.element(id, bytes), "{id}");
        }
        assert!(!ends.element(80, b"") && !ends.element(1, &[0]));
        let [source, destination] = ends.finish();
        // A user alone names no process.
        assert_eq!(source, None);
        let expected = Process {
            pid: 1234,
            name: "nginx\u{fffd}".to_owned(),
            cgroup: "/a".to_owned(),
            ..Process::default()
        };
        assert_eq!(destination.as_deref(), Some(&expected));
    }
}
