//! Live captures on network namespaces of the tests' own.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

mod any;
mod direction;
mod filters;
mod interface;
mod packets;
#[path = "../common/received.rs"]
mod received;
mod sharing;
mod support;
mod vlan;
mod waking;

use ringtap_testkit::{Need, Test, suite, test};

use support::with_engine;

#[global_allocator]
static ALLOCATOR: ringtap_testkit::alloc::Counting = ringtap_testkit::alloc::Counting;

fn main() -> std::process::ExitCode {
    if interface::is_child() {
        return interface::capture_until_killed();
    }
    let mut tests = only_packet();
    for (prefix, engine) in [("", "packet:"), ("tcx_", "tcx:")] {
        tests.extend(every_engine(prefix, engine));
    }
    suite(tests)
}

const ROOT: &[Need] = &[Need::Root];

/// Tests of the packet engine alone.
fn only_packet() -> Vec<Test> {
    vec![test(
        "shares_packets_between_threads",
        ROOT,
        sharing::shares_packets_between_threads,
    )]
}

/// Tests of all engines.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_engine(prefix: &str, engine: &'static str) -> Vec<Test> {
    // The tap's program has atomic operations that return the old value.
    let kernel = if engine == "tcx:" {
        Need::Kernel(5, 12)
    } else {
        Need::Kernel(5, 10)
    };
    let run = |name: &str, body: fn()| {
        let needs = [Need::Root, kernel];
        test(format!("{prefix}{name}"), &needs, with_engine(engine, body))
    };
    vec![
        run("captures_every_packet", packets::captures_every_packet),
        run("stamps_with_nanoseconds", packets::stamps_with_nanoseconds),
        run("cuts_to_the_snaplen", packets::cuts_to_the_snaplen),
        run("takes_one_direction", packets::takes_one_direction),
        run("shows_loopback_once", packets::shows_loopback_once),
        run("counts_exactly", packets::counts_exactly),
        run("samples_about_one_in_n", packets::samples_about_one_in_n),
        run(
            "allocates_nothing_per_packet",
            packets::allocates_nothing_per_packet,
        ),
        run(
            "filters_from_the_first_packet",
            filters::filters_from_the_first_packet,
        ),
        run(
            "changes_filters_without_mixing",
            filters::changes_filters_without_mixing,
        ),
        run("filters_as_a_file_would", filters::filters_as_a_file_would),
        run("takes_one_protocol", filters::takes_one_protocol),
        test(
            format!("{prefix}directions_equal_tcpdump"),
            &[Need::Root, kernel, Need::Tool("tcpdump")],
            with_engine(engine, direction::directions_equal_tcpdump),
        ),
        run(
            "directions_in_user_space",
            direction::directions_in_user_space,
        ),
        test(
            format!("{prefix}any_equals_tcpdump"),
            &[Need::Root, kernel, Need::Tool("tcpdump")],
            with_engine(engine, any::any_equals_tcpdump),
        ),
        run("any_keeps_tags", any::any_keeps_tags),
        run(
            "any_filters_as_a_file_would",
            any::any_filters_as_a_file_would,
        ),
        run("puts_tags_back", vlan::puts_tags_back),
        run(
            "filters_tags_as_a_file_would",
            vlan::filters_tags_as_a_file_would,
        ),
        run("wakes_without_traffic", waking::wakes_without_traffic),
        run("wakes_in_a_flood", waking::wakes_in_a_flood),
        run("times_out", waking::times_out),
        run("delivers_immediately", waking::delivers_immediately).serial(),
        run(
            "reports_a_deleted_interface",
            interface::reports_a_deleted_interface,
        ),
        run("goes_on_after_down", interface::goes_on_after_down),
        run(
            "refuses_an_interface_that_is_down",
            interface::refuses_what_is_down,
        ),
        run(
            "finds_interfaces_by_any_name",
            interface::finds_interfaces_by_any_name,
        ),
        run(
            "restores_promiscuous_mode",
            interface::restores_promiscuous_mode,
        ),
        run(
            "takes_what_memory_there_is",
            interface::takes_what_memory_there_is,
        ),
        run(
            "refuses_an_adapter_clock",
            interface::refuses_an_adapter_clock,
        ),
        run("leaks_nothing", interface::leaks_nothing).serial(),
        run("explains_itself", interface::explains_itself),
    ]
}
