//! Files are only for the owner unless the command line differs; existing files keep their permissions.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use ringtap_testkit::{Test, test};

use crate::program::{Folder, stderr};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("files_that_are_made_are_the_owner_s", &[], made),
        test("files_that_are_there_keep_their_mode", &[], there),
        test("a_group_that_is_none_is_refused", &[], no_group),
    ]
}

/// A command, and the files that it creates.
const WRITERS: [(&str, &[&str]); 9] = [
    ("dump -r in.pcap -w out.pcap", &["out.pcap"]),
    ("dump -r in.pcap -w out.pcapng", &["out.pcapng"]),
    ("dump -r in.pcap -w out.pcap.gz", &["out.pcap.gz"]),
    (
        "dump -r in.pcap -w out.zst -C 10k",
        &["out.zst", "out.zst1"],
    ),
    ("dump -r in.pcap -w out -C 10k", &["out", "out1", "out2"]),
    ("dump -r in.pcap -w out-%s.pcap -G 3600", &["out-*"]),
    ("dump -r in.pcap -w out --index", &["out", "out.idx"]),
    ("dump -r in.pcap --index", &["in.pcap.idx"]),
    (
        "flow -r in.pcap --top 0 -w a.csv -w b.json -w c.ipfix",
        &["a.csv", "b.json", "c.ipfix"],
    ),
];

fn mode(path: &Path) -> u32 {
    let metadata = path.metadata();
    metadata
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .mode()
        & 0o7777
}

fn made() {
    for (line, names) in WRITERS {
        for (option, expected) in [("", 0o600), ("--group GID", 0o640), ("--umask", 0o624)] {
            let folder = Folder::new(300);
            let gid = folder.root().metadata().expect("a folder").gid();
            let option = option.replace("GID", &gid.to_string());
            let output = folder.shell(&format!("umask 053; exec $RINGTAP {line} {option}"));
            assert!(output.status.success(), "{line}: {}", stderr(&output));
            for name in names {
                let path = match name.strip_suffix('*') {
                    Some(start) => starting_with(&folder, start),
                    None => folder.path(name),
                };
                let mode = mode(&path);
                assert_eq!(mode, expected, "{line} {option}: {name} has {mode:o}");
                let group = path.metadata().expect("a file").gid();
                assert!(option.is_empty() || group == gid, "{line}: {name}");
            }
        }
    }
}

fn starting_with(folder: &Folder, start: &str) -> std::path::PathBuf {
    let entries = fs::read_dir(folder.root()).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let name = names
        .filter_map(|name| name.into_string().ok())
        .find(|name| name.starts_with(start));
    folder.path(&name.expect("a file of that name"))
}

fn there() {
    for (line, names) in WRITERS {
        let folder = Folder::new(300);
        for name in names.iter().filter(|name| !name.ends_with('*')) {
            let path = folder.path(name);
            fs::write(&path, "").expect("a file");
            fs::set_permissions(&path, Permissions::from_mode(0o664)).expect("its mode");
        }
        let output = folder.run(line);
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        for name in names.iter().filter(|name| !name.ends_with('*')) {
            let path = folder.path(name);
            assert_eq!(mode(&path), 0o664, "{line}: {name}");
            assert!(path.metadata().expect("a file").len() > 0, "{line}: {name}");
        }
    }
}

fn no_group() {
    for (line, names) in WRITERS {
        let folder = Folder::new(1);
        let output = folder.run(&format!("{line} --group no-such-group"));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains("no such group"), "{line}: {text}");
        for name in names.iter().filter(|name| !name.ends_with('*')) {
            assert!(!folder.path(name).exists(), "{line}: {name}");
        }
    }
}
