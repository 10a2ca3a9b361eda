//! The list of a package's parts (CycloneDX 1.5): the crates that ringtap is built of, from cargo's own answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::RINGTAP;
use crate::process;

/// Returns the list for the programs of these workspace crates.
pub(super) fn list(roots: &[&str]) -> Result<String, String> {
    let metadata = metadata()?;
    let field = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, &Value> = array(&metadata["packages"])
        .map(|package| (field(package, "id"), package))
        .collect();
    let nodes: BTreeMap<String, &Value> = array(&metadata["resolve"]["nodes"])
        .map(|node| (field(node, "id"), node))
        .collect();
    let is_root = |package: &Value| roots.contains(&field(package, "name").as_str());
    let mut open: Vec<String> = packages
        .iter()
        .filter(|(_, package)| is_root(package))
        .map(|(id, _)| id.clone())
        .collect();
    if open.len() != roots.len() {
        return Err(format!("cargo metadata: not all of {}", roots.join(", ")));
    }
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !reached.insert(id.clone()) {
            continue;
        }
        let dependencies = nodes.get(&id).map(|node| &node["deps"]);
        // Dependencies of tests and of builds do not become part of the program.
        let linked = dependencies
            .into_iter()
            .flat_map(array)
            .filter(|dependency| {
                array(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null())
            });
        open.extend(linked.map(|dependency| field(dependency, "pkg")));
    }
    let components: Vec<Value> = reached
        .iter()
        .filter_map(|id| packages.get(id))
        .map(|package| component(package))
        .collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "ringtap", "version": RINGTAP } },
        "components": components,
    });
    serde_json::to_string_pretty(&document).map_err(|error| error.to_string())
}

fn component(package: &Value) -> Value {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    let mut component = json!({
        "type": "library",
        "name": text("name"),
        "version": text("version"),
        "purl": format!("pkg:cargo/{}@{}", text("name"), text("version")),
    });
    if let Some(licence) = package["license"].as_str() {
        // An old way to write "or".
        let expression = licence.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    component
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn metadata() -> Result<Value, String> {
    let mut cargo = process::cargo(&ringtap_testkit::repository());
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo.args(["metadata", "--format-version=1", "--locked"]);
    cargo.args([super::package::FEATURES, "--filter-platform", &target]);
    let output = cargo.output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata: {}", reason.trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn the_list_has_what_is_linked_and_not_what_tests_need() {
        let text = super::list(&["ringtap", "ringtap-bench"]).expect("a list");
        let list: Value = serde_json::from_str(&text).expect("JSON");
        let names: Vec<&str> = super::array(&list["components"])
            .filter_map(|part| part["name"].as_str())
            .collect();
        assert!(
            names.contains(&"clap") && names.contains(&"ringtap-filter"),
            "{names:?}"
        );
        assert!(
            !names.contains(&"ringtap-testkit") && !names.contains(&"proptest"),
            "{names:?}"
        );
    }
}
