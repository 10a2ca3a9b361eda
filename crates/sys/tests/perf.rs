//! Sampling on the running kernel.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringtap_sys::cycles::thread_id;
use ringtap_sys::perf::{Sampler, Trigger, is_refusal, paranoid};
use ringtap_sys::sched::online_cpus;
use ringtap_testkit::{Need, suite, test};

fn main() -> ExitCode {
    suite(vec![
        test(
            "sees_the_own_thread_and_the_kernel",
            &[Need::Root],
            sees_itself,
        ),
        test("refusals_are_told_apart", &[Need::NotRoot], refused),
    ])
}

const CLOCK: Trigger = Trigger::Clock { period: 250_000 };

fn sees_itself() {
    let cpus = online_cpus().expect("some");
    let mut sampler = Sampler::open(CLOCK, cpus.as_slice()).expect("opened");
    sampler.start().expect("started");
    let me = thread_id();
    let (mut user, mut kernel, mut deepest) = (0, 0, 0);
    let patience = Instant::now();
    while (user == 0 || deepest < 2) && patience.elapsed() < Duration::from_secs(20) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(5) {
            let _ = std::fs::metadata("/proc/self/status");
        }
        sampler.drain(|sample| {
            assert!(cpus.as_slice().contains(&(sample.cpu as usize)));
            let depth = sample.kernel_chain().count();
            assert_eq!(sample.in_kernel, depth > 0);
            if sample.thread == me {
                assert_eq!(sample.process, std::process::id());
                if sample.in_kernel {
                    kernel += 1;
                    deepest = deepest.max(depth);
                } else {
                    user += 1;
                }
            }
        });
    }
    assert!(
        user > 0 && kernel > 0 && deepest > 1,
        "{user} {kernel} {deepest}"
    );
    sampler.stop().expect("stopped");
    sampler.drain(|_| ());
    assert_eq!(sampler.drain(|_| ()).samples, 0, "stopped means stopped");
}

fn refused() {
    let opened = Sampler::open(CLOCK, &[0]);
    let all_may = paranoid().is_some_and(|level| level <= 0);
    match opened {
        Ok(_) => assert!(all_may, "nobody else may"),
        Err(error) => assert!(!all_may && is_refusal(&error), "{error}"),
    }
}
