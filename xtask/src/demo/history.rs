//! `cargo xtask demo --history`: flows are kept in a store and asked by SQL, without a server.
//!
//! The flows are those of the demo's network, or of a made-up file where there is no live capture. `ringtap query` needs
//! the program `ringtap-query` (`cargo xtask install --query`); without it the demo shows the store and says so.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;

use super::place::Place;
use super::{explain, show, traffic};

/// How long a command may take that should end by itself.
const LIMIT: Duration = Duration::from_secs(60);
const QUERY: &str = "ringtap-query";

/// Runs the demo; with `quick` the traffic is shorter.
pub(super) fn run(program: &Path, quick: bool) -> Result<(), String> {
    let folder = tempfile::TempDir::with_prefix(super::scenes::FOLDER_PREFIX);
    let folder = folder.map_err(explain("no temporary folder"))?;
    let history = History {
        program,
        folder: folder.path(),
        store: folder.path().join("flows"),
    };
    show::heading(1, "Flows are kept");
    match Place::find() {
        Place::Network { pair, right } => {
            println!("   The network is two namespaces of this program's own, made {right}.\n");
            history.keep_live(&pair, Duration::from_secs(if quick { 1 } else { 3 }))?;
        }
        Place::FileOnly(reason) => {
            println!("   No live capture here: {reason}. The flows are those of a file.\n");
            history.keep_file()?;
        }
    }
    show::heading(2, "The store is a folder of Parquet files");
    history.list()?;
    show::heading(3, "They are asked");
    history.ask()
}

struct History<'a> {
    program: &'a Path,
    folder: &'a Path,
    store: PathBuf,
}

impl History<'_> {
    fn keep_live(&self, pair: &VethPair, duration: Duration) -> Result<(), String> {
        let side = &pair.right;
        let mut flow = side.namespace.command(&self.program.to_string_lossy());
        flow.args(["flow", "-i", &side.device, "--biflow"]);
        flow.args(["--fields", "basic,names", "--store"])
            .arg(&self.store);
        flow.args(["--store-interval", "1s", "--retain", "1d"]);
        flow.args(["--retain", "1G", "--top", "0"]);
        show::command(&flow, self.folder);
        let mut running = Running::start_piped(&mut flow).map_err(explain("ringtap flow"))?;
        running
            .wait_until_told("metering", LIMIT)
            .map_err(explain("ringtap flow"))?;
        traffic::run(pair, duration).map_err(explain("the traffic"))?;
        running.signal("INT").map_err(explain("Ctrl-C"))?;
        let output = running.wait(LIMIT).map_err(explain("ringtap flow"))?;
        show::output(&output.stderr, 12);
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("ringtap flow: {}", output.status)),
        }
    }

    fn keep_file(&self) -> Result<(), String> {
        let input = self.folder.join("traffic.pcap");
        let traffic = Traffic {
            packets: 20_000,
            ..Traffic::default()
        };
        let written = traffic.write_file(&input);
        written.map_err(explain("the capture file"))?;
        let mut flow = Command::new(self.program);
        flow.args(["flow", "-r"]).arg(&input);
        flow.arg("--store").arg(&self.store);
        self.show(flow.args(["--biflow", "--top", "0"]), 12)
            .map(drop)
    }

    fn list(&self) -> Result<(), String> {
        let files = files(&self.store).map_err(explain("the store"))?;
        if files.is_empty() {
            return Err("there is no file in the store".to_owned());
        }
        for file in &files {
            let bytes = file.metadata().map_or(0, |metadata| metadata.len());
            let name = file.strip_prefix(self.folder).unwrap_or(file);
            println!("     {} ({} bytes)", name.display(), show::number(bytes));
        }
        let mut schema = Command::new(self.program);
        println!();
        self.show(schema.args(["flow", "schema"]), 12).map(drop)
    }

    fn ask(&self) -> Result<(), String> {
        let beside = self.program.with_file_name(QUERY);
        if !beside.is_file() {
            show::remark("ringtap query needs ringtap-query: cargo xtask install --query makes it");
            return Ok(());
        }
        let store = self.store.to_string_lossy();
        let sql = "SELECT protocol_name(protocol) AS protocol, app, count(*) AS flows, sum(bytes) AS bytes \
                   FROM flows GROUP BY 1, 2 ORDER BY bytes DESC";
        for question in [
            &["top", "hosts", "--last", "3650d"][..],
            &["talkers", "--last", "3650d"],
            &[sql],
        ] {
            let mut query = Command::new(self.program);
            query.args(["query", "--store", &store]).args(question);
            let answer = self.show(&mut query, 20)?;
            if !answer.contains("bytes") {
                return Err("the answer has no bytes".to_owned());
            }
        }
        Ok(())
    }

    /// Shows a command with its output. Returns its standard output.
    fn show(&self, command: &mut Command, lines: usize) -> Result<String, String> {
        show::command(command, self.folder);
        let running = Running::start_piped(command).map_err(explain("ringtap"))?;
        let output = running.wait(LIMIT).map_err(explain("ringtap"))?;
        show::output(&output.stdout, lines);
        show::output(&output.stderr, lines);
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("ringtap: {}", output.status)),
        }
    }
}

/// Returns the data files of a store.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "parquet") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
