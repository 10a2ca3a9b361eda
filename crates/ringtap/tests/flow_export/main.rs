//! `ringtap flow` and those who take its records: collectors of others, its own, files.

mod capture;
mod clickhouse;
mod collectors;
mod files;
mod floods;
mod messages;
mod processes;
mod sflow;
#[cfg(feature = "parquet")]
mod store;
mod transport;
mod tshark;

use std::process::ExitCode;

use ringtap_testkit::{Need, Test, suite, test};

fn main() -> ExitCode {
    let mut tests = vec![
        test(
            "a_collector_that_is_down_costs_counted_losses",
            &[],
            transport::down,
        ),
        test("what_is_sent_is_collected", &[], transport::collected),
        test(
            "tcp_connects_again_with_templates",
            &[],
            transport::reconnects,
        ),
        test(
            "tcp_without_a_collector_loses_and_counts",
            &[],
            transport::tcp_down,
        ),
        test("a_flood_of_ids_costs_no_other_exporter", &[], floods::ids),
        test(
            "a_flood_of_addresses_costs_no_other_exporter",
            &[],
            floods::addresses,
        ),
        test("only_allowed_exporters_are_taken", &[], floods::allowed),
        test("csv_and_json_have_the_same_records", &[], files::text),
        test("a_full_disk_ends_the_run", &[], files::full),
        test("wrong_usage_is_2", &[], files::usage),
        test(
            "collecting_takes_no_options_of_metering",
            &[],
            files::collecting,
        ),
        test("all_files_are_made_or_none", &[], files::all_or_none),
    ];
    tests.extend(of_sflow());
    tests.extend(databases());
    tests.extend(processes());
    #[cfg(feature = "parquet")]
    tests.extend(parquet());
    let tshark = &[Need::Tool("tshark")];
    tests.push(test("tshark_reads_an_ipfix_file", tshark, tshark::file));
    let name = "elements_have_the_enterprise_of_the_user";
    tests.push(test(name, tshark, tshark::enterprise));
    let name = "tshark_reads_what_comes_over_tcp";
    tests.push(test(name, tshark, tshark::connection));
    for case in collectors::CASES {
        let add = |tool: &'static str, run: fn(&collectors::Case)| -> Test {
            let name = format!("{tool}_reports_the_same_flows_{}", case.name);
            test(name, &[Need::Tool(tool)], move || run(&case))
        };
        tests.push(add("nfcapd", collectors::nfdump));
        tests.push(add("nfacctd", collectors::pmacct));
        tests.push(add("tshark", tshark::datagrams));
    }
    let goflow = || collectors::CASES.iter().for_each(collectors::goflow);
    let need = &[Need::Tool("goflow2")];
    tests.push(test("goflow2_reports_the_same_flows", need, goflow));
    suite(tests)
}

/// Returns the tests of Parquet files and of stores.
#[cfg(feature = "parquet")]
fn parquet() -> Vec<Test> {
    let module = &[Need::PythonModule("duckdb")];
    vec![
        test("parquet_has_the_same_records", &[], files::parquet),
        test("a_store_has_the_records_of_json", &[], store::same_as_json),
        test("duckdb_reads_a_store", module, store::duckdb),
        test("a_kill_loses_at_most_an_interval", &[], store::killed),
        test(
            "with_a_log_a_kill_loses_nothing",
            &[],
            store::killed_with_a_log,
        ),
        test("a_store_has_one_writer", &[], store::refused),
        test(
            "a_store_is_merged_without_privileges",
            &[Need::Root],
            store::other_user,
        ),
    ]
}

/// Returns the tests of processes at the ends of flows.
fn processes() -> Vec<Test> {
    vec![
        test(
            "records_have_recorded_processes",
            &[],
            processes::recorded_ones,
        ),
        test("processes_are_chosen", &[], processes::chosen),
        test("outputs_have_the_same_processes", &[], processes::outputs),
        test("tables_have_processes", &[], processes::tables),
        test("wrong_choices_of_processes_are_2", &[], processes::refused),
        test(
            "filters_ask_for_recorded_processes",
            &[],
            processes::filters,
        ),
        test(
            "tshark_finds_processes",
            &[Need::Tool("tshark")],
            processes::tshark,
        ),
    ]
}

/// Returns the tests of sFlow.
fn of_sflow() -> Vec<Test> {
    vec![
        test(
            "samples_of_sflow_are_the_packets_that_the_meter_sees",
            &[],
            sflow::collected,
        ),
        test(
            "sfcapd_reports_the_same_packets",
            &[Need::Tool("sfcapd")],
            sflow::sfcapd,
        ),
    ]
}

/// Returns the tests of ClickHouse, and of messages.
fn databases() -> Vec<Test> {
    let module = &[Need::PythonModule("chdb")];
    vec![
        test("clickhouse_gets_a_batch_once", &[], clickhouse::faults),
        test("clickhouse_losses_are_counted", &[], clickhouse::losses),
        test("batches_wait_on_the_disk", &[], clickhouse::spool),
        test(
            "a_server_without_an_answer_is_left",
            &[],
            clickhouse::no_answer,
        ),
        test("clickhouse_reads_the_rows", module, clickhouse::engine),
        test("clickhouse_reads_messages", module, messages::engine),
        test(
            "protoc_reads_messages",
            &[Need::Tool("protoc")],
            messages::compiler,
        ),
    ]
}
