//! Live captures on network namespaces of the tests' own.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

mod any;
mod filters;
mod interface;
mod packets;
mod sharing;
mod support;
mod vlan;
mod waking;

use ringtap_testkit::{Need, suite, test};

#[global_allocator]
static ALLOCATOR: ringtap_testkit::alloc::Counting = ringtap_testkit::alloc::Counting;

fn main() -> std::process::ExitCode {
    if interface::is_child() {
        return interface::capture_until_killed();
    }
    let root = &[Need::Root];
    suite(vec![
        test(
            "captures_every_packet",
            root,
            packets::captures_every_packet,
        ),
        test(
            "stamps_with_nanoseconds",
            root,
            packets::stamps_with_nanoseconds,
        ),
        test("cuts_to_the_snaplen", root, packets::cuts_to_the_snaplen),
        test("takes_one_direction", root, packets::takes_one_direction),
        test("shows_loopback_once", root, packets::shows_loopback_once),
        test("counts_exactly", root, packets::counts_exactly),
        test(
            "samples_about_one_in_n",
            root,
            packets::samples_about_one_in_n,
        ),
        test(
            "allocates_nothing_per_packet",
            root,
            packets::allocates_nothing_per_packet,
        ),
        test(
            "filters_from_the_first_packet",
            root,
            filters::filters_from_the_first_packet,
        ),
        test(
            "changes_filters_without_mixing",
            root,
            filters::changes_filters_without_mixing,
        ),
        test(
            "filters_as_a_file_would",
            root,
            filters::filters_as_a_file_would,
        ),
        test("puts_tags_back", root, vlan::puts_tags_back),
        test(
            "filters_tags_as_a_file_would",
            root,
            vlan::filters_tags_as_a_file_would,
        ),
        test(
            "any_equals_tcpdump",
            &[Need::Root, Need::Tool("tcpdump")],
            any::any_equals_tcpdump,
        ),
        test("any_keeps_tags", root, any::any_keeps_tags),
        test(
            "any_filters_as_a_file_would",
            root,
            any::any_filters_as_a_file_would,
        ),
        test("wakes_without_traffic", root, waking::wakes_without_traffic),
        test("wakes_in_a_flood", root, waking::wakes_in_a_flood),
        test("times_out", root, waking::times_out),
        test("delivers_immediately", root, waking::delivers_immediately).serial(),
        test(
            "reports_a_deleted_interface",
            root,
            interface::reports_a_deleted_interface,
        ),
        test("goes_on_after_down", root, interface::goes_on_after_down),
        test(
            "refuses_an_interface_that_is_down",
            root,
            interface::refuses_what_is_down,
        ),
        test(
            "finds_interfaces_by_any_name",
            root,
            interface::finds_interfaces_by_any_name,
        ),
        test(
            "restores_promiscuous_mode",
            root,
            interface::restores_promiscuous_mode,
        ),
        test(
            "takes_what_memory_there_is",
            root,
            interface::takes_what_memory_there_is,
        ),
        test(
            "refuses_an_adapter_clock",
            root,
            interface::refuses_an_adapter_clock,
        ),
        test("leaks_nothing", root, interface::leaks_nothing).serial(),
        test("explains_itself", root, interface::explains_itself),
        test(
            "shares_packets_between_threads",
            root,
            sharing::shares_packets_between_threads,
        ),
    ])
}
