//! Which packets are metered, where not all are.

use crate::record::{Sampling, SamplingMode};

/// Chooses one packet in so many.
#[derive(Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    /// Packets until the next one that is taken; where they are taken by chance, its state.
    state: u64,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling, seed: u64) -> Self {
        let state = match sampling.mode {
            SamplingMode::Deterministic => 0,
            // The state of a xorshift generator must not be 0.
            SamplingMode::Random => seed | 1,
        };
        Self { sampling, state }
    }

    #[inline]
    pub(crate) fn takes(&mut self) -> bool {
        let one_in = u64::from(self.sampling.one_in.get());
        match self.sampling.mode {
            SamplingMode::Deterministic => {
                self.state = (self.state + 1) % one_in;
                self.state == 1 % one_in
            }
            SamplingMode::Random => {
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                ((self.state >> 32) * one_in) >> 32 == 0
            }
        }
    }
}
