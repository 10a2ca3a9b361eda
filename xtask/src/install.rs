//! `cargo xtask install`: ringtap, ringtap-bench and their libpcap, to be used from a folder of one's own.
//!
//! Makes a release build and copies its results, the headers, pkg-config's file, the `pcap-config` script, the
//! documents, the manual pages and completion for shells. `cargo xtask package` puts the same into Debian packages. Nothing outside the prefix is
//! changed, and `ldconfig` is not run.

mod extras;
mod package;
mod query;
mod rpm;
mod sbom;
mod tarball;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::process::{self, at};

pub(crate) use extras::man;
pub(crate) use package::run as package;

/// The version of libpcap that the library is compatible with, as configure scripts ask for it.
const LIBPCAP: &str = "1.10.3";
/// The profile of builds to be used.
pub(crate) const RELEASE: &str = "release";
const RINGTAP: &str = env!("CARGO_PKG_VERSION");

/// The programs: the second is what `ringtap bench` runs.
const PROGRAMS: [&str; 2] = ["ringtap", "ringtap-bench"];

/// Files beside the folder of documents.
const DOCUMENTS: [&str; 3] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The names by which programs ask for the library: upstream's and Debian's.
const LINKS: [&str; 2] = ["libpcap.so.1", "libpcap.so.0.8"];
/// The name by which the linker does.
const LINKER: &str = "libpcap.so";

/// Where things go.
struct Layout {
    /// The prefix that is written into the files: the place from which they will be used.
    prefix: PathBuf,
    /// The root of the prefix while the files are copied: `/`, or a folder to make a package of.
    root: PathBuf,
    /// The folder of libraries, below the prefix.
    libraries: PathBuf,
    /// The folder of headers, below the prefix.
    headers: PathBuf,
    /// The profile whose build is installed.
    profile: &'static str,
}

/// Installs for use from a prefix.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    if let ["--query", words @ ..] = words {
        return query::run(words);
    }
    let Some(layout) = parse(words) else {
        eprintln!(
            "usage: cargo xtask install --prefix FOLDER [--libdir FOLDER] [--destdir FOLDER]\n       \
             cargo xtask install --query [--prefix FOLDER]"
        );
        return ExitCode::from(2);
    };
    process::exit("install", layout.and_then(|layout| install(&layout)))
}

/// Installs into a folder, for programs that are then compiled against it.
///
/// # Errors
/// The build failed, or a file could not be written.
pub(crate) fn into(prefix: &Path) -> Result<(), String> {
    install(&Layout::new(prefix, Path::new("/"), RELEASE))
}

/// Returns `None` if the words are invalid.
fn parse(words: &[&str]) -> Option<Result<Layout, String>> {
    let (mut prefix, mut libraries, mut root) = (None, "lib", None);
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let value = *words.next()?;
        match word {
            "--prefix" => prefix = Some(value),
            "--libdir" => libraries = value,
            "--destdir" => root = Some(value),
            _ => return None,
        }
    }
    let absolute = std::path::absolute(prefix?);
    let prefix = absolute.map_err(|error| format!("the prefix: {error}"));
    Some(prefix.map(|prefix| Layout {
        libraries: PathBuf::from(libraries),
        ..Layout::new(&prefix, Path::new(root.unwrap_or("/")), RELEASE)
    }))
}

fn install(layout: &Layout) -> Result<(), String> {
    build(layout.profile, None)?;
    layout.programs()?;
    layout.library()?;
    layout.development()?;
    layout.documents()?;
    let program = process::built_program(layout.profile, "ringtap")?;
    layout.manual(&program)?;
    layout.completion(&program)?;
    let libraries = layout.prefix.join(&layout.libraries);
    let libraries = libraries.display();
    println!("installed below {}", layout.prefix.display());
    println!("programs use the library by LD_LIBRARY_PATH={libraries}");
    Ok(())
}

/// Builds everything that is installed, with more features if an option of cargo's names them.
pub(crate) fn build(profile: &str, features: Option<&str>) -> Result<(), String> {
    let repository = ringtap_testkit::repository();
    let mut cargo = process::cargo(&repository);
    cargo.args(["build", "--quiet"]).args(features);
    cargo.args((profile == RELEASE).then_some("--release"));
    for package in ["ringtap", "ringtap-bench", "ringtap-pcap-abi"] {
        cargo.args(["--package", package]);
    }
    process::check(&mut cargo)
}

impl Layout {
    /// Returns the usual folders below a prefix.
    fn new(prefix: &Path, root: &Path, profile: &'static str) -> Self {
        Self {
            prefix: prefix.to_path_buf(),
            root: root.to_path_buf(),
            libraries: PathBuf::from("lib"),
            headers: PathBuf::from("include"),
            profile,
        }
    }

    /// Returns the place of a path below the prefix while copying.
    fn place(&self, below: impl AsRef<Path>) -> PathBuf {
        let whole = self.prefix.join(below);
        self.root.join(whole.strip_prefix("/").unwrap_or(&whole))
    }

    fn programs(&self) -> Result<(), String> {
        for name in PROGRAMS {
            let built = process::built_program(self.profile, name)?;
            copy(&built, &self.program(name), 0o755)?;
        }
        Ok(())
    }

    fn program(&self, name: &str) -> PathBuf {
        self.place(Path::new("bin").join(name))
    }

    /// Installs the shared object by its version, and links with the names by which programs ask for it.
    fn library(&self) -> Result<(), String> {
        let name = format!("libpcap.so.{LIBPCAP}");
        let folder = self.place(&self.libraries);
        let built = process::built_program(self.profile, "libpcap.so")?;
        copy(&built, &folder.join(&name), 0o644)?;
        LINKS.iter().try_for_each(|link| self.link(link))
    }

    /// Makes a link to the shared object.
    fn link(&self, link: &str) -> Result<(), String> {
        let name = format!("libpcap.so.{LIBPCAP}");
        let folder = self.place(&self.libraries);
        let link = folder.join(link);
        fs::create_dir_all(&folder).map_err(at(&link))?;
        let _ = fs::remove_file(&link);
        symlink(&name, &link).map_err(at(&link))
    }

    /// Installs headers, `libpcap.pc`, `pcap-config`, and the linker's name of the library.
    fn development(&self) -> Result<(), String> {
        let source = ringtap_testkit::repository().join("crates/pcap-abi");
        copy_folder(&source.join("include"), &self.place(&self.headers))?;
        self.link(LINKER)?;
        let pc = self.place(self.libraries.join("pkgconfig/libpcap.pc"));
        self.fill(&source.join("install/libpcap.pc.in"), &pc, 0o644)?;
        let script = match self.headers.to_str() {
            Some("include") => self.place("bin/pcap-config"),
            // Debian's own script is beside it.
            _ => self.place(self.libraries.join("bin/pcap-config")),
        };
        self.fill(&source.join("install/pcap-config.in"), &script, 0o755)
    }

    fn documents(&self) -> Result<(), String> {
        let repository = ringtap_testkit::repository();
        let folder = self.place("share/doc/ringtap");
        copy_folder(&repository.join("docs"), &folder)?;
        for name in DOCUMENTS {
            copy(&repository.join(name), &folder.join(name), 0o644)?;
        }
        Ok(())
    }

    /// Writes a template with the prefix and the versions in it.
    fn fill(&self, template: &Path, to: &Path, mode: u32) -> Result<(), String> {
        let text = fs::read_to_string(template).map_err(at(template))?;
        let [libraries, headers] =
            [&self.libraries, &self.headers].map(|folder| self.prefix.join(folder));
        let text = text
            .replace("@PREFIX@", &self.prefix.to_string_lossy())
            .replace("@LIBDIR@", &libraries.to_string_lossy())
            .replace("@INCLUDEDIR@", &headers.to_string_lossy())
            .replace("@VERSION@", LIBPCAP)
            .replace("@RINGTAP_VERSION@", RINGTAP);
        write(to, text.as_bytes(), mode)
    }
}

/// Replaces the file as a whole: programs that use the old one keep it.
fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).map_err(at(to))?;
    let new = tempfile::NamedTempFile::new_in(folder).map_err(at(to))?;
    fs::write(new.path(), bytes).map_err(at(to))?;
    fs::set_permissions(new.path(), fs::Permissions::from_mode(mode)).map_err(at(to))?;
    new.persist(to).map_err(|error| at(to)(error.error))?;
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    let bytes = fs::read(from).map_err(at(from))?;
    write(to, &bytes, mode)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    for (path, metadata) in process::below(from, &[])? {
        if !metadata.is_dir() {
            let name = path.strip_prefix(from).unwrap_or(&path);
            copy(&path, &to.join(name), 0o644)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Layout, parse};

    fn understood(words: &[&str]) -> Layout {
        parse(words).expect("understood").expect("a layout")
    }

    #[test]
    fn a_prefix_is_needed_and_others_are_optional() {
        assert!(parse(&[]).is_none());
        assert!(parse(&["--prefix"]).is_none());
        assert!(parse(&["--prefix", "/opt/x", "--other", "y"]).is_none());
        let layout = understood(&["--prefix", "/opt/x"]);
        assert_eq!(layout.place("bin").to_string_lossy(), "/opt/x/bin");
        assert_eq!(layout.libraries.to_string_lossy(), "lib");
    }

    #[test]
    fn a_package_is_made_beside_the_place_of_use() {
        let words = [
            "--prefix",
            "/usr",
            "--destdir",
            "/build",
            "--libdir",
            "lib/x86",
        ];
        let layout = understood(&words);
        assert_eq!(layout.place("bin").to_string_lossy(), "/build/usr/bin");
        assert_eq!(
            layout.prefix.join(&layout.libraries).to_string_lossy(),
            "/usr/lib/x86"
        );
    }

    #[test]
    fn templates_are_filled_in_full() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().to_string_lossy().into_owned();
        let layout = understood(&["--prefix", "/opt/x", "--destdir", &root]);
        layout.development().expect("installed");
        for name in ["lib/pkgconfig/libpcap.pc", "bin/pcap-config"] {
            let text = std::fs::read_to_string(layout.place(name)).expect("a file");
            assert!(text.contains("=/opt/x\n") && !text.contains('@'), "{text}");
        }
        assert!(layout.place("include/pcap/bpf.h").is_file());
    }
}
