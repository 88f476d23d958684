"""The list of published wheels: it names the wheel of every package of a kernel, on each platform."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbagent.packages.requirements import Target
from nbagent.packages.wheel_list import LIST, kernel_packages
from nbagent.sandbox import environment


@pytest.mark.parametrize("python", ["3.11.2", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("platform", ["x86_64-manylinux_2_36", "aarch64-manylinux_2_41"])
def test_every_package_of_a_kernel_has_the_hash_of_its_wheel(python: str, platform: str) -> None:
    """One of those that its requirements allow."""
    target = Target(python=python, platform=platform, pins=environment.requirements())
    allowed = environment.requirements().read_text()
    found = kernel_packages(target)
    assert len(found) > 40
    assert [each.name for each in found if f"sha256:{each.sha256}" not in allowed] == []


def test_the_wheel_is_the_one_that_was_installed() -> None:
    """By the tags that the installed packages say."""
    made = environment.describe()
    files = dict(line.split() for line in environment.requirements().with_name(LIST).read_text().splitlines())
    for each in kernel_packages(made.target):
        wheel = next(
            Path(made.folder).glob(f"lib/*/site-packages/{each.name.replace('-', '[-_.]')}-*.dist-info/WHEEL"), None
        )
        if wheel is None:
            wheel = next(
                found
                for found in Path(made.folder).glob("lib/*/site-packages/*.dist-info/WHEEL")
                if re.sub(r"[-_.]+", "-", found.parent.name.rsplit("-", 1)[0]).lower() == each.name
            )
        tag = re.findall(r"^Tag: \w+-\w+-(\w+)$", wheel.read_text(), re.MULTILINE)
        assert any(part in files[each.sha256] for part in tag), each.name


def test_a_package_that_is_not_listed_has_no_hash(tmp_path: Path) -> None:
    """As of requirements of somebody's own, which have no list beside them."""
    pins = tmp_path / "requirements.txt"
    pins.write_text("polars==1.0.0\n")
    found = kernel_packages(Target(python="3.11", platform="x86_64-manylinux_2_36", pins=pins))
    assert [(each.name, each.version, each.sha256) for each in found] == [("polars", "1.0.0", "")]
