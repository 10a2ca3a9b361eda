//! Inputs that were once handled wrongly, kept under `testdata/savefile/` with a description.

use std::path::{Path, PathBuf};

use ringtap_savefile::{PcapngWriter, ReadOptions, Section};

use crate::collect::{Collected, read_bytes, read_with};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/savefile")
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).expect("a regression case")
}

fn read_in_pieces(bytes: &[u8], buffer: usize) -> Collected {
    let mut options = ReadOptions::default();
    options.buffer = buffer;
    read_with(bytes, &options)
}

#[test]
fn each_is_read_alike_with_any_buffer() {
    let mut cases = 0;
    for entry in std::fs::read_dir(folder()).expect("regression cases") {
        let path = entry.expect("regression case").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            continue;
        }
        cases += 1;
        let bytes = std::fs::read(&path).expect("regression case");
        let whole = read_bytes(&bytes);
        for buffer in [64, 100, 4096] {
            let pieces = read_in_pieces(&bytes, buffer);
            let name = path.display();
            assert_eq!(pieces.packets, whole.packets, "{name}");
            assert_eq!(pieces.error_text(), whole.error_text(), "{name}");
        }
    }
    assert!(cases >= 2, "{cases} cases in {}", folder().display());
}

#[test]
fn what_precedes_the_damage_is_decompressed() {
    let read = read_bytes(&file("damaged-behind-data.gz"));
    assert_eq!(
        read.error_text(),
        "memory: offset 0: neither a pcap nor a pcapng file: it begins with f5 eb d7 af"
    );
}

#[test]
fn texts_do_not_change_when_rewritten() {
    let mut read = read_bytes(&file("option-text-ending-in-zeros.pcapng"));
    let interface = read.interfaces.remove(0);
    assert_eq!(interface.os.as_deref(), Some(""));
    let mut writer = PcapngWriter::new(Vec::new(), &Section::default()).expect("memory");
    writer.add_interface(&interface).expect("memory");
    let again = read_bytes(&writer.finish().expect("memory").0);
    assert_eq!(again.interfaces, [interface]);
}
