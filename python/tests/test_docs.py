"""The examples of the manual and of the modules."""

import doctest
import pathlib

import pytest
import ringtap

MANUAL = pathlib.Path(__file__).parents[2] / "docs/reference/python.md"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_the_manual_is_right(folder):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    result = doctest.testfile(str(MANUAL), module_relative=False, optionflags=FLAGS)
    assert result.failed == 0
    assert result.attempted >= 12


def test_the_package_is_right(folder):
    result = doctest.testmod(ringtap, optionflags=FLAGS)
    assert (result.failed, result.attempted > 0) == (0, True)
