//! The taps on namespaces of the tests' own: the ring and its records, delivery, order, faults.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

mod adapter;
mod any;
mod changes;
mod delivery;
mod faults;
mod hooks;
#[path = "../common/received.rs"]
mod received;
mod records;
mod support;

use ringtap_testkit::{Need, suite, test};

#[global_allocator]
static ALLOCATOR: ringtap_testkit::alloc::Counting = ringtap_testkit::alloc::Counting;

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn main() -> std::process::ExitCode {
    if let Some(status) = faults::run_as_child() {
        return status;
    }
    let any = &[Need::Root];
    // Both taps.
    let root = &[Need::Root, Need::Kernel(5, 18)];
    let tcx = &[Need::Root, Need::Tcx];
    // A veth passes stamps to XDP.
    let told = &[Need::Root, Need::Kernel(6, 3)];
    // Interfaces get new names while they are up.
    let renames = &[Need::Root, Need::Kernel(6, 2)];
    suite(vec![
        test(
            "opens_or_names_the_kernel",
            any,
            hooks::opens_or_names_the_kernel,
        ),
        test(
            "records_are_packet_blocks",
            root,
            records::are_packet_blocks,
        ),
        test(
            "polls_have_a_stamp_each",
            root,
            records::polls_have_a_stamp_each,
        )
        .serial(),
        test(
            "every_length_is_whole",
            root,
            records::every_length_is_whole,
        ),
        test(
            "cut_packets_have_whole_records",
            root,
            records::cut_packets_have_whole_records,
        ),
        test(
            "blocks_are_whole_runs",
            root,
            records::blocks_are_whole_runs,
        ),
        test(
            "padding_shows_nothing_old",
            root,
            records::padding_shows_nothing_old,
        ),
        test(
            "whole_buffer_is_usable",
            root,
            records::whole_buffer_is_usable,
        ),
        test(
            "whole_buffer_is_usable_by_polls",
            root,
            records::whole_buffer_is_usable_by_polls,
        ),
        test(
            "losses_are_told_in_place",
            root,
            records::losses_are_told_in_place,
        ),
        test(
            "large_packets_are_whole",
            root,
            records::large_packets_are_whole,
        ),
        test(
            "what_is_cut_is_counted",
            root,
            records::what_is_cut_is_counted,
        ),
        test(
            "joined_segments_are_whole",
            root,
            records::joined_segments_are_whole,
        ),
        test(
            "stamps_follow_the_choice",
            root,
            records::stamps_follow_the_choice,
        ),
        test("samples_each_nth", root, records::samples_each_nth),
        test(
            "adapter_stamps_at_xdp_or_the_host_s",
            told,
            adapter::stamps_at_xdp_or_the_host_s,
        ),
        test("adapter_stamps_at_tcx", root, adapter::stamps_at_tcx),
        test(
            "adapter_no_clock_is_told_at_the_opening",
            root,
            adapter::no_clock_is_told_at_the_opening,
        ),
        test(
            "reloads_from_another_namespace",
            told,
            adapter::reloads_from_another_namespace,
        ),
        test(
            "two_processors_in_order",
            root,
            delivery::two_processors_in_order,
        ),
        test(
            "two_processors_without_allocation",
            &[Need::Root, Need::Kernel(5, 18), Need::Processors(2)],
            delivery::two_processors_without_allocation,
        ),
        test(
            "two_processors_share_the_buffer",
            root,
            delivery::two_processors_share_the_buffer,
        ),
        test(
            "processors_with_gaps_share_the_buffer",
            root,
            delivery::processors_with_gaps_share_the_buffer,
        ),
        test(
            "two_processors_unordered",
            root,
            delivery::two_processors_unordered,
        ),
        test(
            "waits_for_a_delivery_s_worth",
            root,
            delivery::waits_for_a_delivery_s_worth,
        ),
        test(
            "time_out_delivers_what_is_there",
            root,
            delivery::time_out_delivers_what_is_there,
        ),
        test("no_wake_up_is_lost", root, delivery::no_wake_up_is_lost),
        test(
            "idle_reader_sleeps_on",
            root,
            delivery::idle_reader_sleeps_on,
        )
        .serial(),
        test("rings_who_polls", root, delivery::rings_who_polls),
        test(
            "keeps_up_without_system_calls",
            root,
            delivery::keeps_up_without_system_calls,
        )
        .serial(),
        test(
            "changes_filters_in_a_flood",
            root,
            changes::filters_in_a_flood,
        ),
        test(
            "changes_the_buffer_in_a_flood",
            root,
            changes::the_buffer_in_a_flood,
        ),
        test("changes_delivery", root, changes::delivery),
        test(
            "xdp_sees_what_is_received",
            root,
            hooks::xdp_sees_what_is_received,
        ),
        test(
            "xdp_knows_the_direction",
            root,
            hooks::xdp_knows_the_direction,
        ),
        test("xdp_puts_tags_back", root, hooks::xdp_puts_tags_back),
        test("steals_from_the_host", root, hooks::steals_from_the_host),
        test("clsact_does_not_steal", root, hooks::clsact_does_not_steal),
        test(
            "steals_only_by_consent",
            root,
            hooks::steals_only_by_consent,
        ),
        test(
            "second_xdp_moves_to_tcx",
            root,
            hooks::second_xdp_moves_to_tcx,
        ),
        test("several_taps_at_once", root, hooks::several_taps_at_once),
        test(
            "refuses_what_it_cannot",
            root,
            hooks::refuses_what_it_cannot,
        ),
        test(
            "any_follows_interfaces_that_come",
            root,
            any::follows_interfaces_that_come,
        ),
        test(
            "any_reports_interfaces_that_are_not_covered",
            &[Need::Root, Need::Tcx],
            any::reports_interfaces_that_are_not_covered,
        ),
        test("any_filters_by_interface", root, any::filters_by_interface),
        test(
            "survives_a_new_name_and_mtu",
            renames,
            faults::survives_a_new_name_and_mtu,
        ),
        test(
            "tells_of_a_moved_interface",
            root,
            faults::tells_of_a_moved_interface,
        ),
        test(
            "tells_of_a_deleted_interface",
            root,
            faults::tells_of_a_deleted_interface,
        ),
        test(
            "tells_of_a_program_taken_away",
            tcx,
            faults::tells_of_a_program_taken_away,
        ),
        test(
            "tells_of_a_replaced_program",
            root,
            faults::tells_of_a_replaced_program,
        ),
        test(
            "killed_reader_leaves_nothing",
            root,
            faults::killed_reader_leaves_nothing,
        ),
        test("needs_capabilities", root, faults::needs_capabilities),
        test(
            "falls_back_without_capabilities",
            root,
            faults::falls_back_without_capabilities,
        ),
        test(
            "takes_less_where_the_group_has_no_more",
            &[Need::Root, Need::Kernel(5, 18), Need::MemoryGroup],
            faults::takes_less_where_the_group_has_no_more,
        ),
        test(
            "clsact_stands_in_for_tcx",
            &[Need::Root, Need::Kernel(5, 18), Need::Tool("tc")],
            faults::clsact_stands_in_for_tcx,
        ),
        test(
            "older_kernels_have_older_clocks",
            root,
            faults::older_kernels_have_older_clocks,
        ),
        test(
            "lacking_kernels_are_told_in_a_line",
            &[Need::Root, Need::Kernel(5, 18)],
            faults::lacking_kernels_are_told_in_a_line,
        ),
        test(
            "follows_a_clock_that_is_set",
            root,
            faults::follows_a_clock_that_is_set,
        ),
        test(
            "cut_chain_is_seen_first",
            tcx,
            faults::cut_chain_is_seen_first,
        ),
        test("tells_of_a_cut_chain", tcx, faults::tells_of_a_cut_chain),
        test(
            "thousand_openings_leak_nothing",
            root,
            faults::thousand_openings_leak_nothing,
        )
        .serial(),
    ])
}
