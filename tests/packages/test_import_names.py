"""Import name → distribution."""

from __future__ import annotations

import importlib.metadata
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from nbagent.core.errors import InstallRefused
from nbagent.packages.import_names import DISTRIBUTIONS, NAMES, distribution_for


@pytest.mark.parametrize(
    ("module", "distribution"),
    [
        ("cv2", "opencv-python-headless"),
        ("yaml", "PyYAML"),
        ("sklearn.ensemble", "scikit-learn"),
        ("PIL.Image", "pillow"),
        ("google.cloud.storage", "google-cloud-storage"),
        ("google.cloud.storage.blob", "google-cloud-storage"),
        ("google.protobuf", "protobuf"),
        ("google.generativeai", "google-generativeai"),
        ("mpl_toolkits.mplot3d", "matplotlib"),
        ("mpl_toolkits.basemap", "basemap"),
        ("attr", "attrs"),
    ],
)
def test_a_known_module_is_found_by_its_longest_prefix(module: str, distribution: str) -> None:
    """The table decides, and a longer dotted prefix wins over a shorter one."""
    assert distribution_for(module) == distribution


@pytest.mark.parametrize(("module", "distribution"), [("humanize", "humanize"), ("my_Lib.part", "my-lib")])
def test_an_unknown_module_stands_for_itself(module: str, distribution: str) -> None:
    """What the table doesn't know is looked up under its own top-level name, normalised."""
    assert distribution_for(module) == distribution


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("json", "standard library"),
        ("xml.unheard_of", "standard library"),
        ("tkinter", "display"),
        ("_tkinter", "display"),
        ("distutils.core", "removed"),
        ("urllib2", "Python 2"),
        ("win32api", "Windows only"),
        ("AppKit", "macOS only"),
        ("google.colab", "only in Colab"),
        ("google", "many distributions share"),
        ("google.cloud", "many distributions share"),
        ("google.cloud.unheard_of", "many distributions share"),
        ("utils", "file of your own"),
        ("utils.helpers", "file of your own"),
        ("_private", "private"),
    ],
)
def test_a_module_that_no_distribution_should_be_guessed_for_is_refused(module: str, reason: str) -> None:
    """The refusal says why, since a guess would be a stranger's package."""
    with pytest.raises(InstallRefused, match=reason):
        distribution_for(module)


@pytest.mark.parametrize("module", ["", ".", "a b", "a;b", "--index-url=x", "a..b", "class", "näme", "1st", "x" * 200])
def test_what_is_not_a_module_name_is_refused(module: str) -> None:
    """Only ASCII identifiers joined by dots are looked at; the message is short whatever came."""
    with pytest.raises(InstallRefused, match="is not the name of a module") as caught:
        distribution_for(module)
    assert len(str(caught.value)) < 100


@given(st.text(max_size=120))
def test_any_text_gives_a_distribution_or_a_refusal(text: str) -> None:
    """Nothing else is raised, and what is returned is safe on a command line."""
    try:
        found = distribution_for(text)
    except InstallRefused:
        return
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", found)


def test_the_table_is_alphabetical_and_has_no_idle_entry() -> None:
    """An entry that says what the fallback says anyway would only hide a missing one."""
    names = list(DISTRIBUTIONS)
    assert names == sorted(names, key=lambda name: (name.lower(), name))
    assert len(names) >= 300
    idle = [m for m, d in DISTRIBUTIONS.items() if "." not in m and canonicalize_name(m) == canonicalize_name(d)]
    assert idle == []


def test_the_table_does_not_name_what_is_refused() -> None:
    """The lists of refusals and the table don't contradict each other."""
    refused = NAMES.removed | NAMES.python_2 | NAMES.windows | NAMES.macos | NAMES.own_files
    refused |= frozenset(NAMES.elsewhere) | NAMES.namespaces | sys.stdlib_module_names
    assert refused & set(DISTRIBUTIONS) == set()


@pytest.mark.parametrize("module", ["attr", "dateutil", "ipykernel_launcher", "yaml", "zmq"])
def test_the_table_agrees_with_what_is_installed_here(module: str) -> None:
    """A module that Jupyter itself brings comes from the distribution that the table names."""
    here = importlib.metadata.packages_distributions()[module]
    assert canonicalize_name(DISTRIBUTIONS[module]) in {canonicalize_name(name) for name in here}
