//! In a directory that everybody writes to, such as `/tmp`, nobody's link leads a command to other
//! files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use ringtap_testkit::{Need, Test, test};

use crate::program::{Folder, bytes, stderr};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("links_in_sticky_directories_are_not_followed", &[], sticky),
        test("rights_go_before_files_are_opened", &[Need::Root], user),
    ]
}

/// A command, and the link that it meets.
const WRITERS: [(&str, &str); 7] = [
    ("dump -r in.pcap -w tmp/out.pcap", "out.pcap"),
    ("dump -r in.pcap -w tmp/out.pcapng.gz", "out.pcapng.gz"),
    ("dump -r in.pcap -w tmp/out -C 1k", "out"),
    ("dump -r in.pcap -w tmp/out -C 1k", "out2"),
    ("dump -r in.pcap -w tmp/out --index", "out.idx"),
    ("flow -r in.pcap --top 0 -w tmp/out.csv", "out.csv"),
    ("flow -r in.pcap --top 0 -w a.json -w tmp/b.json", "b.json"),
];

fn sticky() {
    for (line, link) in WRITERS {
        for exists in [true, false] {
            let folder = Folder::new(300);
            let (tmp, target) = (folder.path("tmp"), folder.path("target"));
            fs::create_dir(&tmp).expect("a folder");
            fs::set_permissions(&tmp, Permissions::from_mode(0o1777)).expect("its mode");
            if exists {
                fs::write(&target, "").expect("a file");
            }
            symlink(&target, tmp.join(link)).expect("a link");
            let output = folder.run(line);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{line}: {text}");
            let words = format!("{link}: is a symbolic link");
            assert!(text.contains(&words), "{line}: {text}");
            assert_eq!(target.exists(), exists, "{line}");
            assert!(!exists || bytes(&target).is_empty(), "{line}");
        }
    }
}

/// Commands that become another user, and their outputs through a link.
const CHANGING: [(&str, &str); 6] = [
    ("dump -r in.pcap -w FOLDER/out.pcap", "out.pcap"),
    ("dump -r in.pcap -w FOLDER/out.gz", "out.gz"),
    ("dump -r in.pcap -w FOLDER/out -C 1k", "out"),
    ("dump -r FOLDER/in.pcap --index", "in.pcap.idx"),
    ("flow -r in.pcap --top 0 -w FOLDER/out.csv", "out.csv"),
    (
        "flow --collect udp:127.0.0.1:0 --top 0 -w FOLDER/out.json",
        "out.json",
    ),
];

/// The link leads to a file of root, which the user of `-Z` may not write to.
fn user() {
    for (line, link) in CHANGING {
        for mode in [0o777, 0o1777] {
            let folder = Folder::new(300);
            let root = folder.root();
            fs::set_permissions(root, Permissions::from_mode(0o755)).expect("its mode");
            let (inner, target) = (folder.path("inner"), folder.path("target"));
            fs::create_dir(&inner).expect("a folder");
            fs::copy(folder.path("in.pcap"), inner.join("in.pcap")).expect("a copy");
            for path in [&folder.path("in.pcap"), &inner.join("in.pcap")] {
                fs::set_permissions(path, Permissions::from_mode(0o644)).expect("its mode");
            }
            fs::set_permissions(&inner, Permissions::from_mode(mode)).expect("its mode");
            fs::write(&target, "").expect("a file");
            symlink(&target, inner.join(link)).expect("a link");
            let line = line.replace("FOLDER", "inner");
            let output = folder.run(&format!("{line} -Z nobody"));
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{line}: {text}");
            assert!(text.contains(link), "{line}: {text}");
            assert!(bytes(&target).is_empty(), "{line} with {mode:o}: {text}");
            // The same without a link is the user's file.
            fs::remove_file(inner.join(link)).expect("removed");
            if line.contains("--collect") {
                continue;
            }
            let output = folder.run(&format!("{line} -Z nobody"));
            assert!(output.status.success(), "{line}: {}", stderr(&output));
            let metadata = inner.join(link).metadata().expect("a file");
            assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (65534, 0o600));
        }
    }
}
