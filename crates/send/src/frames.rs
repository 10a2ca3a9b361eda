//! Frames of a template made in this process, for back-ends that take frames.

use ringtap_packet::Timestamp;

use crate::Template;

/// The maximum number of frames that are made for one call, and their memory: few enough to stay in the
/// processor's cache and to have a correct time.
const MOST: usize = 256;
const MEMORY: usize = 64 * 1024;
const LEAST: usize = 32;

/// Memory for some frames of a template.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) template: Option<Template>,
    memory: Vec<u8>,
    stride: usize,
}

impl Frames {
    /// Allocates memory for some frames.
    pub(crate) fn prepare(&mut self, template: &Template) {
        self.stride = template.longest().max(1);
        let frames = (MEMORY / self.stride).clamp(LEAST, MOST);
        self.memory = vec![0; self.stride * frames];
        self.template = Some(template.clone());
    }

    /// Returns how many of this many frames are made for one call.
    pub(crate) fn at_once(&self, count: usize) -> usize {
        count.min(self.memory.len() / self.stride.max(1))
    }

    /// Makes frames from the number `first` on, as many as `count` and the memory allow, with the present
    /// time, and passes them to `sink`.
    pub(crate) fn with<T>(
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

/// Returns nanoseconds since the epoch.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_nanos()).unwrap_or(u64::MAX)
}
