//! The modules that a kernel needs before it can read the host's files, in the order in which they load.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::at;

/// The modules that the first file system needs. A kernel with one of them built in has no such module.
const FIRST: [&str; 5] = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_rng"];

/// A module, decompressed.
pub(super) struct Module {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Returns the first modules, in order of their dependencies.
///
/// # Errors
/// A sentence on what cannot be read.
pub(super) fn first(folder: &Path) -> Result<Vec<Module>, String> {
    let index = folder.join("modules.dep");
    let text = fs::read_to_string(&index).map_err(at(&index))?;
    let module = |path: &str| {
        Ok(Module {
            name: name_of(path),
            bytes: read(&folder.join(path))?,
        })
    };
    order(&text, &FIRST).into_iter().map(module).collect()
}

/// Removes entries from the index that no emulated machine needs: hardware drivers, and the names by which
/// buses request drivers. BusyBox reads the whole index for each requested module, also for one that does not
/// exist, which took seconds.
///
/// # Errors
/// A sentence on what cannot be read or written.
pub(super) fn shorten_index(folder: &Path) -> Result<(), String> {
    for (name, is_needed) in [
        ("modules.dep", is_needed as fn(&str) -> bool),
        ("modules.alias", is_asked_by_name),
    ] {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let lines = text.lines().filter(|line| is_needed(line));
        let short: String = lines.flat_map(|line| [line, "\n"]).collect();
        let new = path.with_extension("new");
        fs::write(&new, short).map_err(at(&path))?;
        fs::rename(&new, &path).map_err(at(&path))?;
    }
    Ok(())
}

/// Returns whether a line of `modules.dep` is about something that a machine without hardware may load.
fn is_needed(line: &str) -> bool {
    const DRIVERS: [&str; 9] = [
        "block", "bus", "char", "net", "pps", "ptp", "vhost", "virtio", "phy",
    ];
    if line.starts_with("kernel/sound/") || line.starts_with("kernel/drivers/net/wireless/") {
        return false;
    }
    let driver = line.strip_prefix("kernel/drivers/");
    let kind = driver.and_then(|path| path.split('/').next());
    kind.is_none_or(|kind| DRIVERS.contains(&kind))
}

/// Returns whether a line of `modules.alias` is about a name such as `net-pf-17`, and not about a bus
/// (`pci:v00008086…`).
fn is_asked_by_name(line: &str) -> bool {
    let alias = line.split_whitespace().nth(1);
    alias.is_some_and(|alias| !alias.contains(':') || alias.starts_with("virtio:"))
}

/// Paths of modules by `modules.dep` (modules.dep(5)).
fn order<'a>(index: &'a str, wanted: &[&str]) -> Vec<&'a str> {
    let needs: BTreeMap<&str, Vec<&str>> = index
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(path, needs)| (path, needs.split_whitespace().collect()))
        .collect();
    let mut ordered = Vec::new();
    for name in wanted {
        let found = needs.keys().find(|path| name_of(path) == *name);
        if let Some(path) = found {
            add(path, &needs, &mut ordered);
        }
    }
    ordered
}

fn add<'a>(path: &'a str, needs: &BTreeMap<&'a str, Vec<&'a str>>, ordered: &mut Vec<&'a str>) {
    if ordered.contains(&path) {
        return;
    }
    for needed in needs.get(path).into_iter().flatten().rev() {
        add(needed, needs, ordered);
    }
    ordered.push(path);
}

/// Returns the name of a module: `kernel/fs/9p/9p.ko.xz` is 9p; dashes are underscores.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split_once(".ko").map_or(file, |(stem, _)| stem);
    stem.replace('-', "_")
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    if path.extension().is_some_and(|extension| extension == "xz") {
        let output = Command::new("xz").arg("-dc").arg(path).output();
        return output.map(|output| output.stdout).map_err(at(path));
    }
    fs::read(path).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_lose_what_hardware_needs() {
        for (line, expected) in [
            ("kernel/net/packet/af_packet_diag.ko:", true),
            ("kernel/drivers/net/veth.ko.xz:", true),
            ("kernel/drivers/net/wireless/ath/ath.ko:", false),
            ("kernel/drivers/gpu/drm/drm.ko: kernel/lib/x.ko", false),
            ("kernel/sound/core/snd.ko:", false),
        ] {
            assert_eq!(is_needed(line), expected, "{line}");
        }
        for (line, expected) in [
            ("alias net-pf-17 af_packet", true),
            ("alias virtio:d00000001v* virtio_net", true),
            ("alias pci:v00008086d* e1000e", false),
            ("# a comment", true),
        ] {
            assert_eq!(is_asked_by_name(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_needed_comes_first() {
        let index = "a/ring.ko:\na/virtio.ko: \nb/virtio_pci.ko.xz: a/ring.ko a/virtio.ko\n\
            c/9pnet.ko:\nc/9pnet_virtio.ko: c/9pnet.ko a/ring.ko a/virtio.ko\nd/other-one.ko:\n";
        assert_eq!(
            order(
                index,
                &["virtio_pci", "9pnet_virtio", "built_in", "other_one"]
            ),
            [
                "a/virtio.ko",
                "a/ring.ko",
                "b/virtio_pci.ko.xz",
                "c/9pnet.ko",
                "c/9pnet_virtio.ko",
                "d/other-one.ko"
            ]
        );
    }
}
