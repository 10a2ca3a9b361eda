//! A recorder that is killed at any moment loses at most the last second, and the next start goes on.

use std::time::{Duration, Instant};

use ringtap_testkit::{Need, Test, test};

use crate::scene::{Scene, ended, now, stderr};

pub(crate) fn tests() -> Vec<Test> {
    vec![test(
        "kills_at_random_moments_lose_a_second_at_most",
        &[Need::Root],
        kills,
    )]
}

const KILLS: u32 = 24;

fn kills() {
    let scene = Scene::new();
    let options = ["--budget", "256M", "--file-size", "1M", "--file-time", "2s"];
    let sender = scene.sender().run(0, 700, 2000);
    let mut recorded = Vec::new();
    let mut random = u64::from(std::process::id()) | 1;
    for _ in 0..ringtap_testkit::repetitions(KILLS) {
        let running = scene.recording(&options);
        let begun = now();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_millis(1100 + random % 1500));
        let killed = now();
        running.signal("KILL").expect("a signal");
        let output = running.wait(crate::scene::LIMIT).expect("an end");
        assert!(!output.status.success(), "{}", stderr(&output));
        recorded.push((begun, killed));
    }
    let running = scene.recording(&options);
    let sent = sender.end();
    ended(running);
    let asked = Instant::now();
    let found = scene.numbers(&[]);
    let _ = asked;
    let mut sorted = found.clone();
    sorted.sort_unstable();
    assert!(
        sorted.windows(2).all(|two| two[0] != two[1]),
        "a packet is there twice"
    );
    for (begun, killed) in recorded {
        // A moment after the start, until a second before the kill.
        let whole = sent
            .iter()
            .filter(|(_, at)| *at > begun + 0.05 && *at < killed - 1.0);
        for (first, at) in whole {
            let missing = (*first..first + 10).find(|number| sorted.binary_search(number).is_err());
            assert_eq!(missing, None, "sent {:.3} s before the kill", killed - at);
        }
    }
}
