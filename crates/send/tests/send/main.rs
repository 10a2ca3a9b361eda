//! Sending on the tests' own namespaces: all reported packets arrived.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

mod faults;
mod frames;
mod generate;
mod support;

use ringtap_testkit::{Need, alloc, suite, test};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> std::process::ExitCode {
    let root = &[Need::Root];
    let live = &[Need::Root, Need::Kernel(6, 3)];
    suite(vec![
        test(
            "queue_arrives_byte_for_byte",
            root,
            frames::queue_arrives_byte_for_byte,
        ),
        test(
            "many_are_judged_as_one_is",
            root,
            frames::many_are_judged_as_one_is,
        ),
        test("one_frame_at_a_time", root, frames::one_frame_at_a_time),
        test("times_are_kept", root, frames::times_are_kept),
        test("sent_packets_are_stamped", root, frames::stamped),
        test("allocates_nothing", root, frames::allocates_nothing),
        test(
            "devices_name_back_ends",
            root,
            frames::devices_name_back_ends,
        ),
        test(
            "rejected_frames_are_named",
            root,
            faults::rejected_frames_are_named,
        ),
        test("another_thread_stops", root, faults::another_thread_stops),
        test("link_down_midway", root, faults::link_down_midway),
        test(
            "full_queue_is_counted_as_the_device_does",
            root,
            faults::full_queue_is_counted_as_the_device_does,
        ),
        test(
            "live_frames_are_those_of_the_template",
            live,
            generate::live,
        ),
        test("generated_frames_arrive", root, generate::packet),
        test("af_xdp_sends_all", live, generate::xsk),
        test("live_repeats_one_frame", live, generate::repeats),
        test("choices_have_reasons", live, generate::choices),
        test("generation_ends_in_time", live, generate::ends),
        test("device_goes_midway", root, faults::device_goes_midway),
    ])
}
