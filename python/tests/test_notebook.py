"""The tutorial notebook, run from its first cell to its last."""

import pathlib

import nbformat
from conftest import needs_root
from nbclient import NotebookClient

NOTEBOOK = pathlib.Path(__file__).parents[1] / "tutorial.ipynb"


@needs_root
def test_the_notebook_runs_to_its_end(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}})
    client.execute()
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in codes)
    printed = str(codes[1].outputs)
    assert "packets; lost:" in printed and "Flags [S]" in printed
