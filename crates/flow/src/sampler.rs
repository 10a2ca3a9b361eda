//! Sampling: selects the packets that are metered.

use crate::options::MeterOptions;
use crate::record::{Sampling, SamplingMode};

/// Selects one of N packets.
#[derive(Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    /// The number of packets until the next selected one. For random sampling, the state of the generator.
    state: u64,
}

impl Sampler {
    /// Returns what selects the packets, unless all are metered.
    pub(crate) fn new(options: &MeterOptions) -> Option<Self> {
        let sampling = options.sampling?;
        let state = match sampling.mode {
            SamplingMode::Deterministic => 0,
            // The state of a xorshift generator must not be 0.
            SamplingMode::Random => options.seed | 1,
        };
        Some(Self { sampling, state })
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
