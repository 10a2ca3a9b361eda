//! Several sources, one stream of packets.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ringtap_capture::{Fanout, FanoutMode, Filter, Next, Source, open_readers};
use ringtap_testkit::netns::VethPair;

use crate::support::{injector, ip_frame, patience, prompt};

const PACKETS: u16 = 4000;

/// Returns the source port of each datagram that comes to one source, until all sources together have had the
/// sent packets, and nothing more comes for a while.
fn read(source: &mut dyn Source, came: &AtomicUsize) -> Vec<u16> {
    let mut ports = Vec::new();
    let mut quiet = 0;
    let begin = Instant::now();
    let is_missing = || came.load(Ordering::Relaxed) < usize::from(PACKETS);
    while quiet < 10 || (is_missing() && begin.elapsed() < patience()) {
        match source.next().unwrap() {
            Next::Block(block) => {
                quiet = 0;
                came.fetch_add(block.packets().count(), Ordering::Relaxed);
                ports.extend(
                    block
                        .packets()
                        .map(|p| u16::from_be_bytes([p.data[34], p.data[35]])),
                );
            }
            _ => quiet += 1,
        }
    }
    ports
}

pub(crate) fn shares_packets_between_threads() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    for mode in [FanoutMode::Hash, FanoutMode::RoundRobin, FanoutMode::Cpu] {
        let fanout = Some(Fanout {
            mode,
            ..Fanout::default()
        });
        let options = prompt().fanout(fanout);
        let filter = Filter::new("udp");
        let opened = pair
            .right
            .run(|| open_readers(&pair.right.device, &options, Some(&filter), 2).unwrap());
        let sources = opened.sources;
        let groups: Vec<_> = sources
            .iter()
            .map(|source| source.describe().fanout_group)
            .collect();
        assert!(groups[0].is_some());
        assert_eq!(groups[0], groups[1]);
        let came = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = sources
            .into_iter()
            .map(|mut source| {
                let came = Arc::clone(&came);
                std::thread::spawn(move || read(&mut *source, &came))
            })
            .collect();
        for i in 0..PACKETS {
            injector.send(&ip_frame(&[], 17, (i, 53))).unwrap();
            if i % 3 == 0 {
                injector.send(&ip_frame(&[], 6, (i, 53))).unwrap();
            }
        }
        let shares: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        let mut seen = HashMap::new();
        for port in shares.iter().flatten() {
            *seen.entry(*port).or_insert(0) += 1;
        }
        assert_eq!(
            seen.len(),
            usize::from(PACKETS),
            "{mode:?}: none is missing"
        );
        assert!(
            seen.values().all(|&times| times == 1),
            "{mode:?}: none comes twice"
        );
        if mode != FanoutMode::Cpu {
            assert!(
                shares.iter().all(|share| share.len() > 500),
                "{mode:?}: both work"
            );
        }
    }
}
