//! `ringtap web` and `ringtap top` as a user has them: in namespaces, on traffic whose numbers are known.

mod browser;
mod client;
mod hostile;
mod processes;
mod safe;
mod terminal;
mod web;

use std::process::ExitCode;
use std::time::Duration;

use ringtap_testkit::{Need, Test, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself; a hang fails the test instead of stopping all.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let root = &[Need::Root];
    let replay = &[Need::Root, Need::Tool("tcpreplay")];
    let tcpdump = &[Need::Root, Need::Tool("tcpreplay"), Need::Tool("tcpdump")];
    let tshark = &[Need::Root, Need::Tool("tshark")];
    let prometheus = &[Need::Root, Need::Tool("prometheus")];
    let named = &[
        Need::Root,
        Need::Tool("tshark"),
        Need::CorpusFile(web::NAMED),
    ];
    let tls = &[Need::Root, Need::Tool("openssl"), Need::Tool("curl")];
    let mut tests = vec![
        test("web_counts_what_was_sent", replay, web::counts),
        test("web_counts_a_file_as_tshark_does", tshark, web::file),
        test("web_filters_sorts_and_exports_flows", root, web::flows),
        test("web_shows_the_names_that_tshark_reads", named, web::names),
        test("web_downloads_a_hosts_packets", tcpdump, web::download),
        test(
            "web_has_the_packets_of_files",
            tcpdump,
            web::packets_of_files,
        ),
        test("web_refuses_strangers", root, safe::strangers),
        test("web_asks_for_its_token", root, safe::token),
        test("web_serves_clients_with_certificates", tls, safe::tls),
        test("web_bounds_connections_and_times", root, safe::bounds),
        test("web_answers_as_it_describes", root, web::description),
        test("web_survives_what_is_no_http", root, safe::garbage),
        test("web_keeps_its_history", replay, web::history),
        test("web_takes_records_of_exporters", root, web::collect),
        test("web_shows_places_and_vendors", root, web::places),
        test(
            "web_shows_the_bytes_of_a_flow_that_is_looked_at",
            replay,
            web::first_bytes,
        ),
        test("web_escapes_hostile_names", root, safe::hostile),
        test(
            "prometheus_scrapes_what_web_counts",
            prometheus,
            web::prometheus,
        ),
    ];
    tests.push(test(
        "web_shows_processes",
        &[Need::Root, Need::InitialPids],
        processes::live,
    ));
    tests.extend(terminals());
    tests.extend(pages());
    suite(tests)
}

/// Tests of `ringtap top` in a terminal.
fn terminals() -> Vec<Test> {
    let root = &[Need::Root];
    let tmux = &[Need::Root, Need::Tool("tmux"), Need::Tool("tcpreplay")];
    let python = &[Need::Root, Need::Tool("python3")];
    vec![
        test("top_shows_and_obeys_keys", tmux, terminal::keys),
        test(
            "top_lists_processes",
            &[Need::Root, Need::InitialPids, Need::Tool("tmux")],
            terminal::processes,
        ),
        test("top_fits_a_large_terminal", tmux, terminal::large),
        test("top_writes_the_packets_of_a_host", tmux, terminal::write),
        test("top_puts_the_terminal_back", tmux, terminal::put_back),
        test(
            "top_keeps_hostile_names_from_the_terminal",
            tmux,
            terminal::hostile,
        ),
        test("top_ends_with_its_terminal", tmux, terminal::lost),
        test(
            "top_ends_at_a_terminal_that_is_stuck",
            python,
            terminal::stuck,
        ),
        test("top_needs_a_terminal", root, terminal::none),
    ]
}

/// Tests of the page in a browser.
fn pages() -> Vec<Test> {
    let page = &[Need::Root, Need::PagePackages, Need::Tool("chromium")];
    let pictures = &[
        Need::Root,
        Need::PagePackages,
        Need::Tool("chromium"),
        Need::CorpusFile(web::NAMED),
    ];
    vec![
        test("the_page_of_a_file_in_a_browser", page, browser::file),
        test("the_page_has_no_barriers", page, browser::barriers),
        test("the_page_of_live_traffic_in_a_browser", page, browser::live),
        test("the_page_offers_recorded_packets", page, browser::recorded),
        test("the_page_compares_with_yesterday", page, browser::yesterday),
        test(
            "the_pictures_of_the_documents_can_be_taken",
            pictures,
            browser::pictures,
        ),
        test(
            "the_page_shows_hostile_names_as_text",
            page,
            browser::hostile,
        ),
    ]
}
