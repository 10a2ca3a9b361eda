//! Tests that the tables of options in `docs/reference/` match the commands.

use clap::CommandFactory as _;
use ringtap_flow::export::{NTOP_PEN, OWN_PEN, REVERSE_PEN};
use ringtap_flow::schema::{FIELDS, Field, Group, Wire};
use ringtap_testkit::pages::{check_block, check_options};

use super::Cli;

/// Every command has a page with the command's options. `ringtap-bench` compares its own; `query` has those of
/// `ringtap-query`.
#[test]
fn pages_have_the_options_of_the_commands() {
    let mut cli = Cli::command();
    cli.build();
    for command in cli.get_subcommands().filter(|command| {
        !command.is_hide_set()
            && !["help", "bench", "config", "query"].contains(&command.get_name())
    }) {
        check_options(command).unwrap_or_else(|reason| panic!("{reason}"));
    }
}

const BEGIN: &str = "<!-- fields: begin; written by `cargo xtask options` -->\n";
const END: &str = "<!-- fields: end -->";

/// The page about records has the table of fields.
#[test]
fn the_options_for_fields_are_in_their_page() {
    let tables = Group::ALL.map(table).join("\n");
    let checked = check_block("flow-export.md", BEGIN, END, &tables);
    checked.unwrap_or_else(|reason| panic!("{reason}"));
}

/// The page about stores has the schema.
#[test]
fn the_schema_is_in_its_page() {
    let begin = "<!-- stored: begin; written by `cargo xtask options` -->\n";
    let table = crate::flow::schema_table();
    let checked = check_block("flow-store.md", begin, "<!-- stored: end -->", &table);
    checked.unwrap_or_else(|reason| panic!("{reason}"));
}

fn table(group: Group) -> String {
    let name = group.name();
    let mut text = format!("| {name} | meaning | v9 | IPFIX |\n|---|---|---|---|\n");
    let fields = FIELDS.iter();
    for field in fields.filter(|field| field.group == group && field.in_files) {
        text += &row(field);
    }
    text
}

fn row(field: &Field) -> String {
    let numbers = |chosen: fn(&Wire) -> bool, name: fn(&Wire) -> String| {
        let wires = field.elements.iter().filter(|wire| chosen(wire));
        wires.map(name).collect::<Vec<_>>().join(", ")
    };
    let v9 = numbers(|wire| wire.v9, in_v9);
    let ipfix = numbers(|wire| wire.ipfix, in_ipfix);
    format!("| `{}` | {} | {v9} | {ipfix} |\n", field.name, field.doc)
}

fn in_v9(wire: &Wire) -> String {
    match wire.enterprise {
        NTOP_PEN => (57_472 + u32::from(wire.id)).to_string(),
        _ => wire.id.to_string(),
    }
}

fn in_ipfix(wire: &Wire) -> String {
    match wire.enterprise {
        0 => wire.id.to_string(),
        REVERSE_PEN => format!("{} reverse", wire.id),
        NTOP_PEN => format!("{} of ntop", wire.id),
        OWN_PEN => format!("{} of ringtap", wire.id),
        other => format!("{other}.{}", wire.id),
    }
}
