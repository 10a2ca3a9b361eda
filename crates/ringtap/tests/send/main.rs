//! `ringtap send` as a user runs it: what it says was sent is what arrived.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

mod corpus;
mod replay;
mod support;

use ringtap_testkit::{Need, suite, test};

fn main() -> std::process::ExitCode {
    let root = &[Need::Root];
    suite(vec![
        test(
            "every_ethernet_packet_of_the_corpus_arrives",
            &[Need::Root, Need::Corpus],
            corpus::arrives,
        ),
        test("files_in_rounds", root, replay::files_in_rounds),
        test("standard_input_is_streamed", root, replay::standard_input),
        test("filtered_and_counted", root, replay::filtered_and_counted),
        test("rewritten_on_the_way", root, replay::rewritten),
        test("rates_are_not_exceeded", root, replay::rates),
        test("long_and_foreign_packets_are_told", root, replay::misfits),
        test("sigint_ends_with_a_true_summary", root, replay::interrupted),
        test(
            "a_slow_receiver_does_not_falsify",
            root,
            replay::slow_receiver,
        ),
        test("consent_on_the_default_route", root, replay::consent),
        test("built_packets_arrive", root, replay::built),
        test("wrong_usage_is_2", &[], replay::usage),
    ])
}
