//! The examples of the filter language's pages, and the packets that they name
//! (`testdata/filter/documentation/packets.txt`).

use std::collections::BTreeMap;

use crate::expressions::LinkTypes;
use ringtap_filter::Tables;

/// The expected result of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It accepts some packets and rejects others.
    Verdicts,
    /// The same, but libpcap differs: because of names, or where libpcap is wrong.
    Ours,
    /// The same, and libpcap agrees from 1.11 on.
    Newer,
    /// The same, with the extensions of the language; libpcap rejects it.
    Extension,
    /// It is invalid.
    Refused,
}

/// An expression of a page, with its expected result.
#[derive(Clone, Debug)]
pub struct Example {
    /// The expression.
    pub expression: String,
    /// Its expected result.
    pub expected: Expected,
    /// Packets that it accepts.
    pub takes: Vec<String>,
    /// Packets that it rejects.
    pub leaves: Vec<String>,
    /// The DLT number of the link type on which it is invalid.
    pub dlt: u32,
    /// File and line.
    pub place: String,
}

/// A name of a row of names, with its place.
#[derive(Clone, Debug)]
pub struct Name {
    /// The expression with the name.
    pub expression: String,
    /// The DLT number of its link type.
    pub dlt: u32,
    /// File and line.
    pub place: String,
}

/// A page's examples.
pub struct Page {
    /// Expressions in rows of their own.
    pub examples: Vec<Example>,
    /// Names in rows of names.
    pub names: Vec<Name>,
}

/// Headings of tables that have no examples.
const OTHERS: [&str; 5] = [
    "written",
    "qualifier",
    "tunnel",
    "test of the process",
    "expression",
];

/// A packet of the examples.
pub struct Sample {
    /// The DLT number of its link type.
    pub dlt: u32,
    /// Its bytes.
    pub data: Vec<u8>,
}

fn read(file: &str) -> String {
    let path = crate::repository().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Sample {
    /// Returns the length of the packet.
    #[must_use]
    pub fn length(&self) -> u32 {
        u32::try_from(self.data.len()).unwrap_or(u32::MAX)
    }
}

/// The columns of a table.
struct Columns {
    expected: Expected,
    takes: Option<usize>,
    leaves: Option<usize>,
    on: Option<usize>,
    /// In a row of names, the expression that contains them.
    within: Option<usize>,
}

impl Columns {
    /// Returns the columns of a heading, if the table below it has examples.
    fn of(heading: &[String]) -> Option<Self> {
        let expected = match heading.first()?.as_str() {
            "example" => Expected::Verdicts,
            "example with names" | "example of ringtap" => Expected::Ours,
            "example of 1.11" => Expected::Newer,
            "extension" => Expected::Extension,
            "refused" => Expected::Refused,
            "names" => Expected::Ours,
            other => {
                assert!(OTHERS.contains(&other), "a table headed {other:?}");
                return None;
            }
        };
        let column = |name| heading.iter().position(|cell| cell == name);
        Some(Self {
            expected,
            takes: column("takes"),
            leaves: column("leaves"),
            on: column("on"),
            within: column("in"),
        })
    }
}

impl Page {
    /// Reads a page of the repository.
    ///
    /// # Panics
    /// If a table has another form.
    #[must_use]
    pub fn read(file: &str) -> Self {
        let link_types = LinkTypes::load();
        let text = read(file);
        let (mut examples, mut names) = (Vec::new(), Vec::new());
        let mut columns = None;
        for (number, line) in (1..).zip(text.lines()) {
            let Some(cells) = cells(line) else {
                columns = None;
                continue;
            };
            let Some(known) = &columns else {
                // The first row of a table is its heading; other tables hold no examples.
                columns = Some(Columns::of(&cells));
                continue;
            };
            let Some(columns) = known else { continue };
            if cells.iter().all(|cell| cell.trim_matches('-').is_empty()) {
                continue;
            }
            let place = format!("{file}:{number}");
            let cell = |column: Option<usize>| column.and_then(|at| cells.get(at));
            let on = cell(columns.on).map_or("EN10MB", |cell| cell.trim_matches('`'));
            let spans = code_spans(&cells[0]);
            assert!(!spans.is_empty(), "{place}: no example");
            if let Some(within) = cell(columns.within) {
                let within = within.trim_matches('`');
                assert!(within.contains("NAME"), "{place}: {within}");
                names.extend(spans[0].split(' ').map(|name| Name {
                    expression: within.replace("NAME", name),
                    dlt: link_types.resolve(on)[0],
                    place: place.clone(),
                }));
                continue;
            }
            let example = |expression| Example {
                expression,
                expected: columns.expected,
                takes: listed(cell(columns.takes)),
                leaves: listed(cell(columns.leaves)),
                dlt: link_types.resolve(on)[0],
                place: place.clone(),
            };
            let row: Vec<Example> = spans.into_iter().map(example).collect();
            let packets = row[0].takes.len() + row[0].leaves.len();
            let is_refused = columns.expected == Expected::Refused;
            assert!(packets > 0 || is_refused, "{place}: no packet");
            examples.extend(row);
        }
        Self { examples, names }
    }
}

/// Returns the cells of a table's row.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    // A bar inside a cell is escaped.
    let hidden = inner.replace("\\|", "\u{1}");
    let cells = hidden.split('|').map(str::trim);
    Some(cells.map(|cell| cell.replace('\u{1}', "|")).collect())
}

fn code_spans(cell: &str) -> Vec<String> {
    let spans = cell.split('`').skip(1).step_by(2);
    spans.map(str::to_owned).collect()
}

fn listed(cell: Option<&String>) -> Vec<String> {
    let names = cell.map_or("", String::as_str).split(',').map(str::trim);
    let names = names.filter(|name| !matches!(*name, "" | "–"));
    names.map(str::to_owned).collect()
}

/// Returns the packets by their names.
///
/// # Panics
/// If the file has another form.
#[must_use]
pub fn samples() -> BTreeMap<String, Sample> {
    let link_types = LinkTypes::load();
    let text = read("testdata/filter/documentation/packets.txt");
    let mut samples: BTreeMap<String, Sample> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(digits) = line.strip_prefix("  ") {
            let sample = samples.get_mut(&name).expect("a name before bytes");
            sample.data.extend(bytes(digits));
            continue;
        }
        let fields: Vec<&str> = line.split(" | ").collect();
        let &[new, link_type, _] = &fields[..] else {
            panic!("three fields: {line}");
        };
        name = new.to_owned();
        let sample = Sample {
            dlt: link_types.resolve(link_type)[0],
            data: Vec::new(),
        };
        let other = samples.insert(name.clone(), sample);
        assert!(other.is_none(), "{new} is there twice");
    }
    samples
}

fn bytes(digits: &str) -> impl Iterator<Item = u8> {
    digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).expect("digits")
    })
}

/// Returns the names that examples use.
#[must_use]
pub fn names() -> Tables {
    let mut tables = Tables::new();
    tables.add_hosts("192.0.2.1 www\n2001:db8::80 www\n10.0.0.254 router\n");
    tables.add_networks("office 192.0.2\n");
    tables.add_services("domain 53/tcp\ndomain 53/udp\nhttp 80/tcp\n");
    tables
        .add_protocols("icmp 1\nigmp 2\ntcp 6\nudp 17\nesp 50\nipv6-icmp 58\nospf 89\nsctp 132\n");
    tables.add_ethers("02:00:00:00:00:fe router\n");
    tables
}
