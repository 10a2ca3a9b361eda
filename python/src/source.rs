//! The source behind a reader: it takes packets over from blocks, without Python's lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap_capture::{LinkType, Next, Source};

use crate::arena::{Arena, Filling};

/// An arena is complete at this size.
const MOST_BYTES: usize = 32 << 20;

/// A source, and the packets that were read of it and not yet delivered.
pub(crate) struct Feed {
    source: Box<dyn Source>,
    arena: Arc<Arena>,
    /// The first packet of the arena that was not delivered.
    at: usize,
    /// Packets that may still be read.
    left: u64,
    /// When the capture ends.
    end: Option<Instant>,
    has_ended: bool,
    /// The error that came after the packets of the arena.
    failure: Option<ringtap_capture::Error>,
}

/// Packets that follow each other in an arena.
pub(crate) struct Slice {
    pub(crate) arena: Arc<Arena>,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The result of a look for packets.
pub(crate) enum Found {
    Packets(Slice),
    /// No packet came in time.
    Nothing,
    End,
}

impl Feed {
    pub(crate) fn new(
        source: Box<dyn Source>,
        count: Option<u64>,
        duration: Option<Duration>,
    ) -> Self {
        Self {
            source,
            arena: Arc::default(),
            at: 0,
            left: count.unwrap_or(u64::MAX),
            end: duration.and_then(|duration| Instant::now().checked_add(duration)),
            has_ended: false,
            failure: None,
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    /// Returns up to `most` packets, which it waits for as long as the source does.
    ///
    /// # Errors
    /// The source fails. Packets before that were delivered.
    pub(crate) fn take(&mut self, most: usize) -> Result<Found, ringtap_capture::Error> {
        if self.at == self.arena.len() {
            if let Some(failure) = self.failure.take() {
                self.has_ended = true;
                return Err(failure);
            }
            if self.has_ended {
                return Ok(Found::End);
            }
            self.fill(most);
        }
        let from = self.at;
        self.at = self.arena.len().min(from.saturating_add(most));
        if from < self.at {
            return Ok(Found::Packets(Slice {
                arena: Arc::clone(&self.arena),
                from,
                to: self.at,
            }));
        }
        if let Some(failure) = self.failure.take() {
            self.has_ended = true;
            return Err(failure);
        }
        let ended = self.has_ended || self.end.is_some_and(|end| end <= Instant::now());
        self.has_ended = ended;
        Ok(if ended { Found::End } else { Found::Nothing })
    }

    /// Reads blocks until `enough` packets are there, or no more come in time.
    fn fill(&mut self, enough: usize) {
        let mut filling = Filling::default();
        let mut links = link_types(&*self.source);
        loop {
            if links.len() != self.source.interfaces().len() {
                links = link_types(&*self.source);
            }
            match self.source.next() {
                Ok(Next::Block(block)) => {
                    for packet in &block {
                        if self.left == 0 {
                            break;
                        }
                        let link = links.get(packet.interface as usize).or(links.first());
                        filling.push(&packet, link.copied().unwrap_or(LinkType::ETHERNET));
                        self.left -= 1;
                    }
                }
                Ok(Next::TimedOut) => break,
                Ok(Next::End | Next::Woken) => {
                    self.has_ended = true;
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
            if self.left == 0 {
                self.has_ended = true;
                break;
            }
            if filling.len() >= enough || filling.bytes() >= MOST_BYTES {
                break;
            }
        }
        self.at = 0;
        self.arena = Arc::new(filling.finish());
    }
}

fn link_types(source: &dyn Source) -> Vec<LinkType> {
    let interfaces = source.interfaces().iter();
    interfaces.map(|interface| interface.link_type).collect()
}
