//! The list of interfaces in Python.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ringtap_capture::devices::{DeviceInfo, list};

use crate::errors;

/// Returns the interfaces as dicts: name, index, link_type, mtu, mac, up, addresses, and `engines`, which has
/// for each engine None, or the reason why it does not work here.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let found = py.detach(list).map_err(|error| errors::of_other(&error))?;
    let all = PyList::empty(py);
    for device in &found {
        all.append(as_dict(py, device)?)?;
    }
    Ok(all)
}

fn as_dict<'py>(py: Python<'py>, device: &DeviceInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let mac: Vec<String> = device
        .mac
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let addresses = device.addresses.iter().map(|one| one.address.to_string());
    let engines = PyDict::new(py);
    for support in device.engines() {
        let reason = support.obstacle.map(|obstacle| obstacle.to_string());
        engines.set_item(support.engine, reason)?;
    }
    dict.set_item("name", device.name.to_string())?;
    dict.set_item("index", device.index)?;
    dict.set_item("link_type", device.link_type.to_string())?;
    dict.set_item("mtu", device.mtu)?;
    dict.set_item("mac", mac.join(":"))?;
    dict.set_item("up", device.flags.is_up())?;
    dict.set_item("addresses", addresses.collect::<Vec<_>>())?;
    dict.set_item("engines", engines)?;
    Ok(dict)
}
