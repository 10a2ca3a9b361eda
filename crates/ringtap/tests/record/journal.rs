//! Messages of services in the journal of systemd, which is started for the test, with files of its own.

use std::collections::HashMap;
use std::process::Command;

use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, Test, test};
use serde_json::Value;

use crate::scene::{LIMIT, RINGTAP, stderr};

pub(crate) fn tests() -> Vec<Test> {
    let needs = [Need::Root, Need::Tool("systemd-cat"), Need::Tool("ip")];
    vec![test(
        "messages_have_fields_in_the_journal",
        &needs,
        have_fields,
    )]
}

/// Runs three commands as services would be run, and prints the journal's entries of them.
///
/// The journal must not read the kernel's messages, nor change the kernel's audit.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/log/journal /run/work
printf '[Journal]\nStorage=volatile\nAudit=no\nReadKMsg=no\nRateLimitBurst=0\n' > /run/systemd/journald.conf.d/test.conf
/lib/systemd/systemd-journald &
cd /run/work
until test -S /run/systemd/journal/socket; do sleep 0.1; done
# As systemd starts services.
cat > service <<'END'
JOURNAL_STREAM=$(stat --dereference --format %d:%i /proc/self/fd/2) exec ringtap "$@"
END
ip link set lo up
systemd-cat sh service dump -r missing.pcap || true
systemd-cat sh service dump -i lo -c 4 -w seen.pcapng icmp &
dump=$!
systemd-cat sh service record -i lo --dir packets --budget 64M &
record=$!
while kill -0 $dump 2>/dev/null; do ping -c 1 127.0.0.1 >/dev/null; sleep 0.1; done
kill -TERM $record
wait $record
# Another standard error is not the journal.
JOURNAL_STREAM=1:2 ringtap dump -r elsewhere.pcap || true
for try in $(seq 100); do
    journalctl --directory /run/log/journal --output json > found
    if grep -q RINGTAP_COMMAND.*record found; then break; fi
    sleep 0.1
done
cat found
"#;

fn have_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(RINGTAP, folder.path().join("ringtap")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    command.args(["sh", "-c", SCRIPT]);
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    let running = Running::start_piped(&mut command).expect("unshare starts");
    let output = running.wait(LIMIT).expect("an end");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    let entries: Vec<HashMap<String, Value>> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let with = |fields: &[(&str, &str)]| {
        let is_one = |entry: &&HashMap<String, Value>| {
            fields.iter().all(|(name, value)| {
                let text = entry.get(*name).and_then(Value::as_str);
                text == Some(*value)
            })
        };
        let found = entries.iter().find(is_one);
        found.unwrap_or_else(|| panic!("no entry has {fields:?}: {:?}\n{said}", entries.last()))
    };
    let failed = with(&[("RINGTAP_COMMAND", "dump"), ("PRIORITY", "3")]);
    let message = failed["MESSAGE"].as_str().unwrap_or_default();
    assert!(message.contains("missing.pcap"), "{message}");
    assert_eq!(failed["SYSLOG_IDENTIFIER"], "ringtap");
    assert_eq!(failed["_TRANSPORT"], "journal");
    with(&[
        ("RINGTAP_COMMAND", "dump"),
        ("RINGTAP_INTERFACE", "lo"),
        ("RINGTAP_LINK_TYPE", "EN10MB"),
        ("PRIORITY", "6"),
    ]);
    with(&[("RINGTAP_COMMAND", "dump"), ("RINGTAP_CAPTURED", "4")]);
    with(&[("RINGTAP_COMMAND", "record"), ("RINGTAP_DEVICE", "lo")]);
    // Nothing of that was written to standard error as well.
    assert!(!said.contains("missing.pcap"), "{said}");
    assert!(said.contains("ringtap: elsewhere.pcap"), "{said}");
}
