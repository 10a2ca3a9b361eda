//! Engine `drop`: packets that are dropped on purpose are in the capture, each once, with its reason.

mod causes;
mod outputs;
mod processes;
mod programs;
mod scene;
mod volume;

use std::process::ExitCode;

use ringtap_testkit::{Need, suite, test};

/// The kernel names reasons from this version on, and the tests expect those of the places that they cause.
const REASONS: Need = Need::Kernel(5, 17);

fn main() -> ExitCode {
    let root = &[Need::Root, REASONS];
    let tc = &[Need::Root, REASONS, Need::Tool("tc")];
    let nft = &[Need::Root, REASONS, Need::Tool("nft")];
    let tcx = &[Need::Root, REASONS, Need::Tcx];
    let live = &[Need::Root, REASONS, Need::InitialPids];
    // The tracepoint passes the receiver's socket from this version on.
    let named = &[Need::Root, Need::Kernel(6, 11), Need::InitialPids];
    suite(vec![
        test("bad_packets_have_their_reasons", root, causes::bad_packets),
        test("a_full_socket_drops", root, causes::full_socket),
        test("a_socket_filter_drops", root, causes::socket_filter),
        test("a_neighbour_that_is_missing_drops", root, causes::neighbour),
        test("a_segment_outside_the_window_drops", root, causes::window),
        test("a_full_scheduler_drops", tc, causes::scheduler),
        test("netfilter_drops", nft, causes::netfilter),
        test("generic_xdp_drops", root, programs::xdp),
        test("failures_at_xdp_are_counted", root, programs::failing_xdp).serial(),
        test("programs_at_tcx_drop", tcx, programs::tcx),
        test("packets_that_are_used_are_no_drops", root, volume::consumed),
        test("a_burst_is_captured_or_counted", root, volume::burst).serial(),
        test("filters_run_in_the_kernel", root, outputs::filters),
        test("one_device_is_captured", root, outputs::one_device),
        test(
            "a_file_prints_the_line_of_the_capture",
            root,
            outputs::lines,
        ),
        test("tags_beside_packets_are_put_back", tcx, programs::tags),
        test("flows_of_drops_are_metered", root, outputs::flows),
        test("reasons_are_counted", root, outputs::counts),
        test("senders_are_named", live, processes::senders),
        test("receivers_are_named", named, processes::receivers),
        test("the_process_is_filtered", named, processes::filters),
        test("devices_lists_the_engine", root, outputs::devices),
        test("the_capture_is_explained", root, outputs::explained),
        test(
            "wrong_use_is_refused",
            &[Need::Interfaces, REASONS],
            outputs::wrong_use,
        ),
    ])
}
