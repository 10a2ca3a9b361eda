//! In a directory that everybody writes to, such as `/tmp`, nobody's link leads a command to other
//! files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ringtap_testkit::{Test, test};

use crate::program::{Folder, bytes, stderr};

pub(crate) fn tests() -> Vec<Test> {
    vec![test(
        "links_in_sticky_directories_are_not_followed",
        &[],
        sticky,
    )]
}

/// What writes, and the link that it finds.
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
