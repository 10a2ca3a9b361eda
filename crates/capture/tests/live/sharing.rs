//! Several sources, one stream of packets.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Fanout, FanoutMode, Filter, Next, Source, open_fanout};
use ringtap_testkit::netns::VethPair;

use crate::support::{injector, ip_frame, prompt};

const PACKETS: u16 = 4000;

/// The source port of each datagram that comes until all sources together have been quiet.
fn read(source: &mut dyn Source) -> Vec<u16> {
    let mut ports = Vec::new();
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(700) {
        if let Next::Block(block) = source.next().unwrap() {
            last = Instant::now();
            ports.extend(
                block
                    .packets()
                    .map(|p| u16::from_be_bytes([p.data[34], p.data[35]])),
            );
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
        let options = CaptureOptions { fanout, ..prompt() };
        let filter = Filter::new("udp");
        let sources = pair
            .right
            .run(|| open_fanout(&pair.right.device, &options, Some(&filter), 2).unwrap());
        let groups: Vec<_> = sources
            .iter()
            .map(|source| source.describe().fanout_group)
            .collect();
        assert!(groups[0].is_some());
        assert_eq!(groups[0], groups[1]);
        let threads: Vec<_> = sources
            .into_iter()
            .map(|mut source| std::thread::spawn(move || read(&mut *source)))
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
