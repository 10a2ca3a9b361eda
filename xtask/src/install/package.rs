//! `cargo xtask package`: Debian packages of the same files, and one for distributions with RPM.
//!
//! There are three packages, and two more on request, which take long to build. `ringtap` has the programs, manual
//! pages, completion, services and the link by which
//! Wireshark finds ringtap's interfaces; it is made as .rpm, too ([`rpm`]). `ringtap-libpcap` has the library in a folder of its own, beside Debian's,
//! and `ringtap-dev` its headers. `ringtap-query` has the program of `ringtap query`, `python3-ringtap` the Python
//! package. Beside them are their checksums and the list of the crates in the programs.
//!
//! The bytes depend only on the built programs and on the time of the sources. With `--check`, each package is
//! packed twice and compared, lintian judges it, and apt installs it into a temporary copy of the system: a mount
//! namespace with an overlay over `/`, of which nothing remains. `.ci/packages` does it in fresh roots of Debian.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use super::extras::{DATE, gzip, seconds};
use super::{DOCUMENTS, LIBPCAP, Layout, PROGRAMS, RELEASE, RINGTAP, build, copy, sbom, write};
use super::{query, rpm, tarball};
use crate::process::{self, at};
use crate::python;

/// The work in the copy of the system.
const CHECK: &str = include_str!("check.sh");
/// Services, and their configuration.
const UNITS: [&str; 3] = [
    "ringtap-flow@.service",
    "ringtap-record@.service",
    "ringtap-web.service",
];
const CONFIGURATION: [&str; 3] = ["flow.toml", "record.toml", "web.toml"];
/// The features that programs of packages have beside the default: to compile librdkafka takes OpenSSL's headers, which
/// their users need not have.
pub(super) const FEATURES: &str = "--features=ringtap/kafka";
/// The least Python, as in `python/pyproject.toml`.
const PYTHON: &str = "3.10";
const MAINTAINER: &str = "The ringtap developers <ringtap@packages.invalid>";

/// Builds the packages into `target/debian`.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let mut checks = false;
    let mut wanted = Wanted {
        profile: RELEASE,
        query: false,
        python: false,
        archives: false,
    };
    for word in words {
        match *word {
            "--check" => checks = true,
            "--debug" => wanted.profile = "debug",
            "--query" => wanted.query = true,
            "--python" => wanted.python = true,
            "--tarballs" => wanted.archives = true,
            _ => {
                eprintln!(
                    "usage: cargo xtask package [--check] [--debug] [--query] [--python] [--tarballs]"
                );
                return ExitCode::from(2);
            }
        }
    }
    let made = build(wanted.profile, Some(FEATURES)).and_then(|()| packages(&wanted));
    let done = made.and_then(|made| {
        for path in &made {
            println!("{}", path.display());
        }
        if checks {
            check(&made, &wanted)
        } else {
            Ok(())
        }
    });
    process::exit("package", done)
}

/// The packages that are made.
struct Wanted {
    profile: &'static str,
    query: bool,
    python: bool,
    /// Archives of static programs.
    archives: bool,
}

/// Packs again and compares, has lintian judge, and installs the packages where nothing remains of them.
fn check(made: &[PathBuf], wanted: &Wanted) -> Result<(), String> {
    let read = |path: &PathBuf| fs::read(path).map_err(at(path));
    let before: Vec<Vec<u8>> = made.iter().map(read).collect::<Result<_, _>>()?;
    for (path, before) in packages(wanted)?.iter().zip(&before) {
        if read(path)? != *before {
            let path = path.display();
            return Err(format!("{path}: packed twice, the bytes differ"));
        }
    }
    println!("packed twice: the same bytes");
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--allow-root"]);
    lintian.arg("--tag-display-limit=0");
    let of_kind = |kind: &str| -> Vec<&PathBuf> {
        let is = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == kind);
        made.iter().filter(is).collect()
    };
    let debian = of_kind("deb");
    process::check(lintian.args(&debian))?;
    println!("lintian: no errors and no warnings");
    for path in of_kind("rpm") {
        rpm::check(path)?;
    }
    for path in of_kind("gz") {
        tarball::check(path)?;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "sh", "-c", CHECK, "sh"]);
    process::check(unshare.args(debian))
}

fn packages(wanted: &Wanted) -> Result<Vec<PathBuf>, String> {
    let built = process::built_program(wanted.profile, "ringtap")?;
    let out = built.ancestors().nth(2).unwrap_or(&built).join("debian");
    fs::create_dir_all(&out).map_err(at(&out))?;
    let pack = Pack {
        architecture: answer("dpkg", &["--print-architecture"])?,
        triplet: answer("cc", &["-print-multiarch"])?,
        out,
        profile: wanted.profile,
    };
    let mut made = vec![pack.program()?, pack.library()?, pack.development()?];
    if wanted.query {
        made.push(pack.query()?);
    }
    if wanted.python {
        made.extend(pack.python()?);
    }
    made.extend(pack.rpm()?);
    if wanted.archives {
        made.extend(tarball::pack(&pack)?);
    }
    let list = sbom::list(&["ringtap", "ringtap-bench"])?;
    let place = pack.out.join(format!("ringtap_{RINGTAP}.cdx.json"));
    write(&place, list.as_bytes(), 0o644)?;
    pack.checksums(&made)?;
    Ok(made)
}

/// A run of packing.
pub(super) struct Pack {
    pub(super) out: PathBuf,
    architecture: String,
    triplet: String,
    profile: &'static str,
}

impl Pack {
    /// Packs the programs.
    fn program(&self) -> Result<PathBuf, String> {
        self.package("ringtap", |layout| {
            let extcap = format!("lib/{}/wireshark/extcap", self.triplet);
            self.programs(layout, "lib/systemd/system", &extcap)?;
            let contrib = ringtap_testkit::repository().join("contrib");
            let kept = CONFIGURATION.map(|name| format!("/etc/ringtap/{name}\n"));
            write(&layout.root.join("DEBIAN/conffiles"), kept.concat().as_bytes(), 0o644)?;
            for (script, mode) in [("config", 0o755), ("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755), ("templates", 0o644)] {
                let from = contrib.join(format!("debian/ringtap.{script}"));
                copy(&from, &layout.root.join("DEBIAN").join(script), mode)?;
            }
            let needed = dependencies(&PROGRAMS.map(|name| layout.program(name)))?;
            Ok(format!(
                "Section: net\n\
                 Depends: {needed}, adduser, debconf (>= 0.5) | debconf-2.0, libcap2-bin, init-system-helpers (>= 1.54~)\n\
                 Suggests: wireshark-common, ringtap-libpcap\n\
                 Description: programmable packet capture\n \
                 ringtap captures, filters, counts, stores, sends and summarizes network\n \
                 packets, close to the kernel's own limit. It speaks the filter language\n \
                 of tcpdump, reads and writes pcap and pcapng, exports NetFlow and IPFIX,\n \
                 shows traffic live in the terminal and the browser, and reports where\n \
                 every lost packet was lost.\n"
            ))
        })
    }

    /// Installs the programs with all that belongs to them, but for the files that Debian and RPM have elsewhere.
    fn programs(&self, layout: &Layout, units: &str, extcap: &str) -> Result<(), String> {
        layout.programs()?;
        for name in PROGRAMS {
            strip(&layout.program(name))?;
        }
        self.beside_programs(layout, units, extcap)?;
        // These packages make the group, and may leave the program to it alone.
        for unit in UNITS {
            let place = layout.root.join(units).join(format!("{unit}.d/group.conf"));
            write(&place, b"[Service]\nSupplementaryGroups=ringtap\n", 0o644)?;
        }
        for name in DOCUMENTS {
            let _ = fs::remove_file(layout.place(format!("share/doc/ringtap/{name}")));
        }
        Ok(())
    }

    /// Installs what belongs to the programs. Units go below the root, Wireshark's link below the prefix.
    pub(super) fn beside_programs(
        &self,
        layout: &Layout,
        units: &str,
        extcap: &str,
    ) -> Result<(), String> {
        layout.documents()?;
        let program = process::built_program(self.profile, "ringtap")?;
        layout.manual(&program)?;
        layout.completion(&program)?;
        let contrib = ringtap_testkit::repository().join("contrib");
        for unit in UNITS {
            let place = layout.root.join(units).join(unit);
            copy(&contrib.join("systemd").join(unit), &place, 0o644)?;
        }
        for name in CONFIGURATION {
            let place = layout.root.join("etc/ringtap").join(name);
            copy(&contrib.join("etc").join(name), &place, 0o644)?;
        }
        let up = "../".repeat(Path::new(extcap).components().count());
        let extcap = layout.place(extcap);
        fs::create_dir_all(&extcap).map_err(at(&extcap))?;
        symlink(format!("{up}bin/ringtap"), extcap.join("ringtap-extcap"))
            .map_err(|error| error.to_string())
    }

    /// Packs the programs for distributions with RPM. `None` if that is not possible here.
    fn rpm(&self) -> Result<Option<PathBuf>, String> {
        let Some(names) = rpm::names(&self.architecture) else {
            return Ok(None);
        };
        let folder = process::folder()?;
        let layout = self.layout(folder.path());
        let extcap = format!("{}/wireshark/extcap", names.libraries);
        self.programs(&layout, "usr/lib/systemd/system", &extcap)?;
        let [debians, others] = ["vendor-completions", "site-functions"]
            .map(|name| layout.place("share/zsh").join(name));
        fs::rename(&debians, others).map_err(at(&debians))?;
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let place = layout.place(format!("share/licenses/ringtap/{licence}"));
            copy(&ringtap_testkit::repository().join(licence), &place, 0o644)?;
        }
        make_readable(folder.path())?;
        rpm::pack(folder.path(), names, &self.out).map(Some)
    }

    /// Returns where the files of a package go: as they will be installed, below a folder.
    pub(super) fn layout(&self, root: &Path) -> Layout {
        Layout::new(Path::new("/usr"), root, self.profile)
    }

    /// Packs the library, in a folder that the loader does not search by itself.
    fn library(&self) -> Result<PathBuf, String> {
        self.package("ringtap-libpcap", |layout| {
            layout.libraries = self.private();
            layout.library()?;
            let library = layout.place(layout.libraries.join(format!("libpcap.so.{LIBPCAP}")));
            strip(&library)?;
            debians_name(&library)?;
            let contrib = ringtap_testkit::repository().join("contrib/debian");
            let switch = layout.place("sbin/ringtap-libpcap-default");
            layout.fill(&contrib.join("ringtap-libpcap-default"), &switch, 0o755)?;
            let page = fs::read(contrib.join("ringtap-libpcap-default.8"));
            let page = gzip(&page.map_err(|error| error.to_string())?)?;
            let place = layout.place("share/man/man8/ringtap-libpcap-default.8.gz");
            write(&place, &page, 0o644)?;
            let place = layout.root.join("DEBIAN/prerm");
            copy(&contrib.join("ringtap-libpcap.prerm"), &place, 0o755)?;
            let needed = dependencies(&[library])?;
            Ok(format!(
                "Section: libs\nDepends: {needed}\n\
                 Description: libpcap on ringtap\n \
                 Programs made for libpcap run on ringtap, unchanged, with\n \
                 LD_LIBRARY_PATH=/usr/lib/{0}/ringtap or, all of them, after\n \
                 \"ringtap-libpcap-default on\". Debian's library stays in place.\n",
                self.triplet
            ))
        })
    }

    /// Packs what is needed to compile programs with the library.
    fn development(&self) -> Result<PathBuf, String> {
        self.package("ringtap-dev", |layout| {
            layout.libraries = self.private();
            layout.headers = PathBuf::from("include/ringtap");
            layout.development()?;
            Ok(format!(
                "Section: libdevel\nDepends: ringtap-libpcap (= {RINGTAP})\n\
                 Description: headers of libpcap on ringtap\n \
                 pcap.h, and ringtap's extensions to it, with a file for pkg-config in\n \
                 /usr/lib/{0}/ringtap/pkgconfig.\n",
                self.triplet
            ))
        })
    }

    /// Packs the program of `ringtap query`.
    fn query(&self) -> Result<PathBuf, String> {
        self.package("ringtap-query", |layout| {
            let program = query::install(&ringtap_testkit::repository(), &layout.place("bin"))?;
            strip(&program)?;
            let needed = dependencies(&[program])?;
            Ok(format!(
                "Section: net\nDepends: {needed}, ringtap (= {RINGTAP})\n\
                 Description: SQL for flows that ringtap has stored\n \
                 The program of \"ringtap query\", with DataFusion: it asks a store of\n \
                 \"ringtap flow --store\" by SQL, or with a ready question.\n"
            ))
        })
    }

    /// Builds the wheel, and packs the Python package as the wheel has it.
    fn python(&self) -> Result<[PathBuf; 2], String> {
        let wheel = python::wheel(&self.out)?;
        let package = self.package("python3-ringtap", |layout| {
            let modules = layout.place("lib/python3/dist-packages");
            fs::create_dir_all(&modules).map_err(at(&modules))?;
            let mut unpack = Command::new("python3");
            unpack.args(["-m", "zipfile", "-e"]).arg(&wheel);
            process::check(unpack.arg(&modules))?;
            // pip's list of files, with the checksum of the module before it is stripped.
            let list = modules.join(format!("ringtap-{RINGTAP}.dist-info/RECORD"));
            fs::remove_file(&list).map_err(at(&list))?;
            let module = modules.join("ringtap/_ringtap.abi3.so");
            strip(&module)?;
            // Python writes compiled files beside the modules.
            let clean =
                "#!/bin/sh\nset -e\nrm -rf /usr/lib/python3/dist-packages/ringtap/__pycache__\n";
            write(&layout.root.join("DEBIAN/prerm"), clean.as_bytes(), 0o755)?;
            let needed = dependencies(&[module])?;
            Ok(format!(
                "Section: python\nDepends: {needed}, python3 (>= {PYTHON})\n\
                 Suggests: python3-pandas, python3-numpy\n\
                 Description: captures, reads, filters and sends packets in Python\n \
                 Packets of interfaces and of capture files, one by one or as tables for\n \
                 Arrow, pandas and Polars; compiled filters, flows, and sending.\n"
            ))
        })?;
        Ok([package, wheel])
    }

    /// Returns the library's own folder, below the prefix.
    fn private(&self) -> PathBuf {
        PathBuf::from("lib").join(&self.triplet).join("ringtap")
    }

    /// Packs what `fill` installs; it returns the fields of the package that are its own.
    fn package(
        &self,
        name: &str,
        fill: impl FnOnce(&mut Layout) -> Result<String, String>,
    ) -> Result<PathBuf, String> {
        let folder = process::folder()?;
        let mut layout = self.layout(folder.path());
        let fields = fill(&mut layout)?;
        self.documents(&layout, name)?;
        let size = kibibytes(folder.path())?;
        let architecture = &self.architecture;
        // lintian looks for manual pages in packages of the same source.
        let source = match name {
            "ringtap" => "",
            _ => "Source: ringtap\n",
        };
        let control = format!(
            "Package: {name}\n{source}Version: {RINGTAP}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
             Installed-Size: {size}\nPriority: optional\n{fields}"
        );
        let place = folder.path().join("DEBIAN/control");
        write(&place, control.as_bytes(), 0o644)?;
        sums(folder.path())?;
        make_readable(folder.path())?;
        let package = format!("{name}_{RINGTAP}_{architecture}.deb");
        let path = self.out.join(package);
        let mut pack = Command::new("dpkg-deb");
        pack.args(["--root-owner-group", "-Zxz", "--build"]);
        pack.arg(folder.path()).arg(&path);
        pack.env(DATE, seconds().to_string());
        process::check(pack.stdout(Stdio::null()))?;
        Ok(path)
    }

    /// Installs the licence and the list of changes.
    fn documents(&self, layout: &Layout, name: &str) -> Result<(), String> {
        let repository = ringtap_testkit::repository();
        let folder = layout.place(format!("share/doc/{name}"));
        let copyright = repository.join("contrib/debian/copyright");
        copy(&copyright, &folder.join("copyright"), 0o644)?;
        let date = answer("date", &["-u", "-R", "-d", &format!("@{}", seconds())])?;
        let entry = format!(
            "ringtap ({RINGTAP}) unstable; urgency=medium\n\n  * The changes are in the project's CHANGELOG.md.\n\n -- {MAINTAINER}  {date}\n"
        );
        let packed = gzip(entry.as_bytes())?;
        write(&folder.join("changelog.gz"), &packed, 0o644)
    }

    /// Writes the checksums of the packages.
    fn checksums(&self, made: &[PathBuf]) -> Result<(), String> {
        let mut sums = Command::new("sha256sum");
        let names = made.iter().filter_map(|path| path.file_name());
        let output = sums.args(names).current_dir(&self.out).output();
        let output = output.map_err(|error| format!("sha256sum: {error}"))?;
        write(&self.out.join("SHA256SUMS"), &output.stdout, 0o644)
    }
}

/// Makes a library with Debian's name that consists of the other one alone. The loader's cache knows libraries by
/// the names that they have inside, so that a link with another name is not found there.
fn debians_name(library: &Path) -> Result<(), String> {
    let folder = library.parent().unwrap_or(library);
    let own = folder.join("libpcap.so.0.8");
    fs::remove_file(&own).map_err(at(&own))?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-nostartfiles", "-Wl,-soname,libpcap.so.0.8"]);
    cc.args(["-Wl,--no-as-needed", "-Wl,-z,noexecstack"]);
    cc.args(["-Wl,--build-id=none", "-o"]);
    process::check(cc.arg(&own).arg(folder.join("libpcap.so.1")).arg("-lc"))?;
    strip(&own)?;
    fs::set_permissions(&own, fs::Permissions::from_mode(0o644)).map_err(at(&own))
}

/// Removes symbols that are not needed to run.
fn strip(binary: &Path) -> Result<(), String> {
    let mut strip = Command::new("strip");
    strip.args(["--strip-unneeded", "--remove-section=.comment"]);
    process::check(strip.arg("--remove-section=.note").arg(binary))
}

/// Returns the size of the files in a folder, as Debian counts it.
fn kibibytes(folder: &Path) -> Result<u64, String> {
    let size = |metadata: &fs::Metadata| match metadata.is_dir() {
        true => 1,
        false => metadata.len().div_ceil(1024),
    };
    let below = process::below(folder, &[])?;
    Ok(below.iter().map(|(_, metadata)| size(metadata)).sum())
}

/// Writes the checksums of a package's files into it.
fn sums(folder: &Path) -> Result<(), String> {
    let script = "find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 md5sum";
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script]).current_dir(folder).output();
    let output = output.map_err(|error| format!("md5sum: {error}"))?;
    if !output.status.success() {
        return Err(format!("md5sum: {}", output.status));
    }
    write(&folder.join("DEBIAN/md5sums"), &output.stdout, 0o644)
}

/// Returns the packages that programs or libraries need, with the least versions that have its symbols.
fn dependencies(binaries: &[PathBuf]) -> Result<String, String> {
    let folder = process::folder()?;
    let control = b"Source: ringtap\n\nPackage: ringtap\nArchitecture: any\n";
    write(&folder.path().join("debian/control"), control, 0o644)?;
    let mut ask = Command::new("dpkg-shlibdeps");
    ask.arg("-O");
    for binary in binaries {
        ask.arg(format!("-e{}", binary.display()));
    }
    let output = ask.current_dir(folder.path()).output();
    let output = output.map_err(|error| format!("dpkg-shlibdeps: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let needed = text.trim().strip_prefix("shlibs:Depends=");
    needed.map(str::to_owned).ok_or_else(|| {
        let reason = String::from_utf8_lossy(&output.stderr);
        format!("dpkg-shlibdeps: {}: {reason}", output.status)
    })
}

/// Makes folders readable: a temporary folder is its owner's alone; those of a package are not.
pub(super) fn make_readable(folder: &Path) -> Result<(), String> {
    let below = process::below(folder, &[])?.into_iter();
    let folders = below.filter_map(|(path, metadata)| metadata.is_dir().then_some(path));
    for path in folders.chain([folder.to_path_buf()]) {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(at(&path))?;
    }
    Ok(())
}

fn answer(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(format!("{program}: {}", output.status)),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
