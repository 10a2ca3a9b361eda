//! `ringtap web` and `ringtap top` as a user has them: in namespaces, on traffic whose numbers are known.

mod browser;
mod client;
mod terminal;
mod web;

use std::process::ExitCode;
use std::time::Duration;

use ringtap_testkit::{Need, suite, test};

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
    let tmux = &[Need::Root, Need::Tool("tmux"), Need::Tool("tcpreplay")];
    let page = &[Need::Root, Need::PagePackages, Need::Tool("chromium")];
    suite(vec![
        test("web_counts_what_was_sent", replay, web::counts),
        test("web_counts_a_file_as_tshark_does", tshark, web::file),
        test("web_filters_sorts_and_exports_flows", root, web::flows),
        test("web_shows_the_names_that_tshark_reads", named, web::names),
        test("web_downloads_a_hosts_packets", tcpdump, web::download),
        test("web_refuses_strangers", root, web::strangers),
        test("web_asks_for_its_token", root, web::token),
        test("web_answers_as_it_describes", root, web::description),
        test("web_survives_what_is_no_http", root, web::garbage),
        test("web_keeps_its_history", replay, web::history),
        test("web_takes_records_of_exporters", root, web::collect),
        test("the_page_of_a_file_in_a_browser", page, browser::file),
        test("the_page_of_live_traffic_in_a_browser", page, browser::live),
        test(
            "prometheus_scrapes_what_web_counts",
            prometheus,
            web::prometheus,
        ),
        test("top_shows_and_obeys_keys", tmux, terminal::keys),
        test("top_fits_a_large_terminal", tmux, terminal::large),
        test("top_writes_the_packets_of_a_host", tmux, terminal::write),
        test("top_puts_the_terminal_back", tmux, terminal::put_back),
        test("top_ends_with_its_terminal", tmux, terminal::lost),
        test("top_needs_a_terminal", root, terminal::none),
    ])
}
