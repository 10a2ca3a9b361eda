//! Profiles of generated traffic.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ringtap_capture::CaptureOptions;
use ringtap_profile::{Plan, traffic::Traffic};
use ringtap_testkit::{Need, suite, test};

fn main() -> ExitCode {
    suite(vec![test("try", &[Need::Root], tryit)])
}

fn tryit() {
    for engine in ["tcx", "xdp", "packet"] {
        let plan = Plan {
            device: None,
            options: CaptureOptions::default(),
            filter: None,
            duration: Duration::from_secs(3),
            rate: 4000,
            traffic: Traffic::default(),
            steps: true,
        };
        let report = ringtap_profile::run(&plan, Some(engine), &AtomicBool::new(false)).unwrap();
        eprintln!("{}", serde_json::to_string_pretty(&report).unwrap());
    }
}
