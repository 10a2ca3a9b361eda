//! `cargo xtask python`: the Python package, built as a wheel, and its tests and measurements.
//!
//! The package is outside the workspace (`python/`), since it is built by maturin, which comes from PyPI. So it is not
//! part of `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::process::{self, at};

/// The tests' packages from PyPI; maturin builds the wheel.
const FOR_TESTS: [&str; 8] = [
    "maturin>=1.7,<2",
    "pytest",
    "pyarrow",
    "pandas",
    "polars",
    "numpy",
    // The notebook.
    "nbclient",
    "ipykernel",
];
/// The readers that the package is compared with.
const PEERS: [&str; 4] = ["scapy", "dpkt", "pyshark", "pypcap"];

const USAGE: &str = "usage: cargo xtask python [--wheel FOLDER | --bench]";

/// Builds and tests the package; with `--wheel FOLDER` it only builds, with `--bench` it measures afterwards.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let done = match *words {
        [] => Place::new().and_then(|place| place.test()),
        ["--wheel", folder] => {
            Place::new().and_then(|place| place.build(Path::new(folder)).map(drop))
        }
        ["--bench"] => Place::new().and_then(|place| place.measure()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    process::exit("python", done)
}

/// Builds the wheel into a folder, and returns its path.
///
/// # Errors
/// There is no Python, PyPI cannot be reached, or the package does not compile.
pub(crate) fn wheel(folder: &Path) -> Result<PathBuf, String> {
    Place::new()?.build(folder)
}

/// Makes a virtual environment if there is none, and installs packages of PyPI into it.
///
/// # Errors
/// There is no Python, or PyPI cannot be reached.
pub(crate) fn environment(folder: &Path, packages: &[&str]) -> Result<(), String> {
    if !folder.join("bin/python").exists() {
        let mut make = Command::new("python3");
        process::check(make.args(["-m", "venv"]).arg(folder))
            .map_err(|reason| format!("{reason}; Debian: apt install python3-venv"))?;
    }
    let mut pip = Command::new(folder.join("bin/pip"));
    process::check(pip.args(["install", "--quiet"]).args(packages))
}

/// The folders of the package.
struct Place {
    repository: PathBuf,
    /// `python/`.
    package: PathBuf,
    /// Everything that is built.
    target: PathBuf,
}

impl Place {
    /// Makes a virtual environment with the packages of the tests.
    fn new() -> Result<Self, String> {
        let repository = ringtap_testkit::repository();
        let place = Self {
            package: repository.join("python"),
            target: repository.join("target/python"),
            repository,
        };
        place.install(&FOR_TESTS)?;
        Ok(place)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.target.join("venv/bin").join(name)
    }

    fn install(&self, packages: &[&str]) -> Result<(), String> {
        environment(&self.target.join("venv"), packages)
    }

    /// Builds the wheel into a folder, and returns its path.
    fn build(&self, folder: &Path) -> Result<PathBuf, String> {
        let mut maturin = Command::new(self.program("maturin"));
        maturin
            .args(["build", "--release", "--out"])
            .arg(std::path::absolute(folder).map_err(|error| error.to_string())?)
            .current_dir(&self.package)
            .env("CARGO_TARGET_DIR", self.target.join("build"));
        process::check(&mut maturin)?;
        let wheels = fs::read_dir(folder).map_err(at(folder))?;
        let mut wheels: Vec<PathBuf> = wheels
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "whl"))
            .collect();
        wheels.sort();
        let wheel = wheels.pop().ok_or("maturin left no wheel")?;
        println!("{}", wheel.display());
        Ok(wheel)
    }

    /// Builds the wheel, installs it, and runs the tests on the installed package.
    fn test(&self) -> Result<(), String> {
        let wheel = self.build(&self.target.join("wheels"))?;
        let mut pip = Command::new(self.program("pip"));
        pip.args(["install", "--quiet", "--force-reinstall", "--no-deps"])
            .arg(wheel);
        process::check(&mut pip)?;
        let mut tests = Command::new(self.program("python"));
        tests
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(&self.package);
        process::check(&mut tests)
    }

    fn measure(&self) -> Result<(), String> {
        self.test()?;
        self.install(&PEERS)?;
        let mut cargo = process::cargo(&self.repository);
        process::check(cargo.args(["build", "--release", "--package", "ringtap"]))?;
        let mut compare = Command::new(self.program("python"));
        compare
            .arg(self.package.join("bench/compare.py"))
            .arg(process::built_program("release", "ringtap")?)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        process::check(&mut compare)
    }
}
