//! Sampling: selects the packets that are metered.

use crate::record::{Sampling, SamplingMode};

/// Selects one of N packets.
#[derive(Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    /// The number of packets until the next selected one. For random sampling, the state of the generator.
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
