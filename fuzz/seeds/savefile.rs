//! Writes starting corpora for the capture-file targets: `cargo run --bin savefile_seeds DIR`
//! makes a folder in DIR for each target. Minimise them into `corpus/` by
//! `cargo fuzz cmin`, or by `cargo fuzz run TARGET corpus/TARGET DIR/TARGET -- -merge=1`.

use std::path::Path;

use ringtap_testkit::captures::variants;

/// Larger files slow fuzzing down and show it nothing more.
const MAX_SEED: usize = 1024;

fn main() -> std::io::Result<()> {
    let folder = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "seeds-out".to_owned());
    let folder = Path::new(&folder);
    let pcap = variants::pcap_variants();
    let pcapng = [variants::pcapng_variants(), variants::beyond_libpcap()].concat();
    write(&folder.join("savefile_pcap"), &pcap, &[])?;
    write(&folder.join("savefile_pcapng"), &pcapng, &[])?;
    for codec in 0..3 {
        let folder = folder.join("savefile_compressed");
        write(&folder.join(codec.to_string()), &pcap, &[codec, 100, 200])?;
    }
    Ok(())
}

fn write(folder: &Path, files: &[(String, Vec<u8>)], head: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let small = files.iter().filter(|(_, bytes)| bytes.len() <= MAX_SEED);
    for (index, (_, bytes)) in small.enumerate() {
        std::fs::write(folder.join(format!("{index:03}")), [head, bytes].concat())?;
    }
    Ok(())
}
