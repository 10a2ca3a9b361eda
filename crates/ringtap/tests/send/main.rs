//! `ringtap send` as a user runs it: all packets that it reports as sent arrived.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

mod corpus;
mod faults;
mod layers;
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
        test("long_gaps_are_told_and_shortened", root, replay::gaps),
        test("invalid_times_are_reported", root, replay::invalid_times),
        test("a_wrong_filter_is_shown", root, replay::wrong_filter),
        test("lists_of_files_are_sent", root, replay::lists),
        test("filtered_and_counted", root, replay::filtered_and_counted),
        test("rewritten_on_the_way", root, replay::rewritten),
        test("rates_are_not_exceeded", root, replay::rates),
        test("long_and_foreign_packets_are_told", root, replay::misfits),
        test("link_down_midway_is_told", root, faults::link_down_midway),
        test(
            "a_full_queue_is_counted_as_the_device_does",
            root,
            faults::queue_full_for_a_while,
        ),
        test(
            "a_signal_at_top_speed_loses_nothing",
            root,
            faults::interrupted_at_top_speed,
        ),
        test(
            "live_frames_are_told_as_handed_over",
            &[Need::Root, Need::Kernel(6, 3), Need::Tool("ethtool")],
            faults::live_frames,
        ),
        test("sigint_ends_with_a_true_summary", root, replay::interrupted),
        test(
            "a_slow_receiver_does_not_falsify",
            root,
            replay::slow_receiver,
        ),
        test("consent_on_the_default_route", root, replay::consent),
        test("built_packets_arrive", root, replay::built),
        test(
            "tshark_decodes_every_layer",
            &[Need::Root, Need::Tool("tshark")],
            layers::decoded,
        ),
        test("wrong_usage_is_2", &[Need::Interfaces], replay::usage),
    ])
}
