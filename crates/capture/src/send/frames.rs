//! Frames of a template made in this process, for back-ends that take frames.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Template;

/// Frames that one call takes at most, for all back-ends.
const MOST: usize = 64;

/// Memory for some frames of a template.
#[derive(Default)]
pub(super) struct Frames {
    template: Option<Template>,
    memory: Vec<u8>,
    stride: usize,
}

impl Frames {
    /// Takes memory for so many frames, 64 at most.
    pub(super) fn prepare(&mut self, template: &Template, frames: usize) {
        self.stride = template.longest();
        self.memory = vec![0; self.stride * frames.min(MOST)];
        self.template = Some(template.clone());
    }

    /// Makes frames from the number `first` on, as many as `count` and the memory allow, with the
    /// present time, and hands them to `sink`.
    pub(super) fn with<T>(
        &mut self,
        first: u64,
        count: usize,
        sink: impl FnOnce(&[&[u8]]) -> T,
    ) -> T {
        let mut frames: [&[u8]; MOST] = [&[]; MOST];
        let mut made = 0;
        if let Some(template) = &self.template {
            let nanos = now();
            let places = self.memory.chunks_exact_mut(self.stride.max(1));
            for (number, place) in (first..).zip(places).take(count.min(MOST)) {
                let len = template.write(number, nanos, place);
                frames[made] = &place[..len];
                made += 1;
            }
        }
        sink(&frames[..made])
    }
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = now.unwrap_or_default().as_nanos();
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
