"""What leaves for the package index: measured at an index that writes down each request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from packages.index import Index, Make, refused
from packaging.requirements import Requirement

from nbagent.core.errors import InstallError, InstallRefused
from nbagent.core.events import Package
from nbagent.core.policy import MIB, InstallPolicy, TrustLevel, trust_for
from nbagent.packages import uv
from nbagent.packages.allowance import CHARACTERS, REQUESTS, Allowance
from nbagent.packages.import_names import KNOWN
from nbagent.packages.installer import Installer

pytestmark = pytest.mark.usefixtures("own_uv")
SECRET = "s3cr3t"  # noqa: S105 - a word that must not leave


def asked_for(index: Index) -> list[str]:
    """The names whose pages the index was asked for, each once."""
    return list(dict.fromkeys(path.split("/")[2] for path in index.requests if path.startswith("/simple/")))


async def refusals(install: Callable[[str], object], names: list[str]) -> list[InstallError]:
    """What came of asking for each of these, one after the other."""
    found = []
    for name in names:
        try:
            await install(name)  # type: ignore[misc]
        except InstallError as error:
            found.append(error)
    return found


async def test_of_a_thousand_made_up_names_a_few_leave(index: Index, make: Make) -> None:
    """However they are asked for, and also for who goes on with the sandbox in another process."""
    names = [f"{SECRET}-{number}" for number in range(1000)]
    found = await refusals(lambda name: make().install([name]), names[:400])
    found += await refusals(lambda name: make().install_module(name.replace("-", "_")), names[400:800])
    found += await refusals(lambda name: make().install([name, "numpy"]), names[800:])
    assert len(found) == 1000
    assert asked_for(index) == names[:10]
    assert all("--unknown-names" in error.mend for error in found[10:])
    assert len({str(error) for error in found[10:]}) == 1
    with pytest.raises(InstallRefused, match="for 10 packages"):
        await make().install([f"in-one-{number}" for number in range(1000)])
    assert len(asked_for(index)) == 10


async def test_long_names_are_fewer(index: Index, make: Make) -> None:
    """Their characters are bounded too, those of the versions of names that nobody knows included."""
    index.add("attackers", "1.0")
    installer = make()
    await refusals(lambda name: installer.install([name]), [f"{SECRET * 13}{number}" for number in range(9)])
    assert sum(map(len, asked_for(index))) <= 10 * CHARACTERS
    installer = make(folder=installer.site.with_name("other"))
    index.requests.clear()
    found = await refusals(
        lambda version: installer.install([f"attackers=={version}"]), [f"9.{number}" for number in range(100)]
    )
    assert len(found) == 100
    assert index.requests.count("/simple/attackers/") < 2 * 10 * CHARACTERS / len("==9.0")


@pytest.mark.parametrize(
    "request_", ["many=={0}1", "many==1.1+{0}", "many[{0}]", "many[x1,{0}]<2", "many!=1.{0}0", "MANY[{0}]===1.0+{0}"]
)
async def test_no_words_of_a_version_or_an_extra_leave(index: Index, make: Make, request_: str) -> None:
    """What leaves besides the name is which of the published versions and extras was chosen."""
    for version in ("1.0", "1.1", "2.0"):
        index.add("many", version, requires=("dep; extra == 'x1'",))
    index.add("dep")
    text = request_.format(SECRET if "[" in request_ or "+" in request_ else "77")
    await refusals(lambda name: make().install([name]), [text])
    assert index.requests
    assert "/simple/many/" in index.requests
    published = {"/simple/many/", "/simple/dep/", *index.bodies}
    assert {path.removesuffix(".metadata") for path in index.requests} <= published


async def test_what_everybody_asks_for_is_free(index: Index, make: Make) -> None:
    """Also in versions, and what a person listed; what is there already asks for nothing."""
    common = sorted(KNOWN - {"numpy", "pyzmq"})[:50]
    await refusals(make(unknown_names=0).install_module, ["yaml", "sklearn"])
    found = await refusals(lambda name: make(unknown_names=0).install([f"{name}>=1"]), common)
    assert asked_for(index) == ["pyyaml", "scikit-learn", *common]
    assert all("no distribution" in str(error) or "No versions" in str(error) for error in found)
    index.add("ours")
    assert await make(unknown_names=0, allow=frozenset({"Ours"})).install(["ours"])
    assert await make(unknown_names=0).install(["ours"]) == []
    with pytest.raises(InstallRefused, match="for 0 packages"):
        await make(unknown_names=0).install(["unheard-of"])


async def test_a_name_counts_once(index: Index, make: Make) -> None:
    index.add("own-tool")
    for name in ("own-tool", "Own_Tool", "own.tool", "nowhere", "nowhere", "NOWHERE"):
        await refusals(lambda name: make(unknown_names=2).install([name]), [name])
    found = await refusals(lambda name: make(unknown_names=2).install([name]), ["nowhere", "third"])
    assert ["no distribution" in str(error) for error in found] == [True, False]
    assert asked_for(index) == ["own-tool", "nowhere"]


def test_the_order_of_common_names_is_bounded_too(tmp_path: Path) -> None:
    """By which, and by their versions, a little leaves with each request."""
    allowance = Allowance(InstallPolicy(), tmp_path / "asked.json")
    assert [allowance.take([Requirement("polars==1.0")]) for _ in range(REQUESTS)] == [""] * REQUESTS
    assert "200 packages" in allowance.take([Requirement("polars")])
    assert "200 packages" in Allowance(InstallPolicy(), tmp_path / "asked.json").take([Requirement("polars")])


async def test_a_person_may_allow_more(index: Index, make: Make) -> None:
    """They are asked with the names and the reason; what they allowed counts for nothing, what they didn't stays."""
    asked: list[tuple[list[str], str]] = []

    async def exceed(names: list[str], reason: str) -> None:
        asked.append((names, reason))
        if "no" in names:
            raise InstallRefused("It is not approved.")

    def installer() -> Installer:
        made = make(unknown_names=1)
        made.exceed = exceed
        return made

    for name in ("first", "second[x]==1", "second[x]==1"):
        index.add(name.partition("[")[0])
        await installer().install([name])
    with pytest.raises(InstallRefused, match="not approved"):
        await installer().install(["no"])
    assert [names for names, _ in asked] == [["second[x]==1"], ["no"]]
    assert "for 1 packages" in asked[0][1]
    assert asked_for(index) == ["first", "second"]


@pytest.mark.parametrize("stated", [3 * MIB, None, 10])
async def test_packages_have_a_budget_of_bytes(index: Index, make: Make, stated: int | None) -> None:
    """Also where the index states no size, or a wrong one, and for who goes on with the sandbox in another process."""
    for name in ("first", "second"):
        index.add(name, files={f"{name}/data.txt": "x" * (3 * MIB)}, stated=stated)
    index.add("small")
    assert await make(install_mb=4).install(["first"])
    with pytest.raises(InstallRefused, match=r"would have \d MB, and may have 4 MB") as caught:
        await make(install_mb=4).install(["second"])
    assert "--install-mb" in caught.value.mend
    assert list(make(install_mb=4).installed) == ["first"]
    assert await make(install_mb=4).install(["second"], by_person=True)
    if stated == 3 * MIB:
        assert await make(install_mb=4).install(["small"])
    else:
        # What was fetched for nothing counts, so that it isn't fetched again and again.
        await refused(make(install_mb=4), "small", match="would have")


@pytest.mark.parametrize("stated", [3 * MIB, None, 10])
async def test_the_packages_of_a_lock_have_it_too(index: Index, make: Make, stated: int | None) -> None:
    """A lock may come from anybody; what its packages weigh is asked before one comes, where the index says it."""
    large = {name: {f"{name}/data.txt": "x" * (3 * MIB)} for name in ("first", "second")}
    one, two = (Package(name, "1.0", index.add(name, files=large[name], stated=stated), True) for name in large)
    small = Package("small", "1.0", index.add("small"), True)
    with pytest.raises(InstallRefused, match=r"would have \d MB, and may have 4 MB") as caught:
        await make(install_mb=4).install_locked([one, two])
    assert "--install-mb" in caught.value.mend
    assert make(install_mb=4).installed == {}
    fetched = [each for each in index.requests if each.endswith(".whl")]
    if stated == 3 * MIB:
        assert not fetched
        await make(install_mb=4).install_locked([one, small])
        assert set(make(install_mb=4).installed) == {"first", "small"}


def locked(index: Index, name: str, *, requested: bool, requires: tuple[str, ...] = ()) -> Package:
    """A package as a lock names it."""
    return Package(name, "1.0", index.add(name, requires=requires), requested)


@pytest.mark.parametrize("requested", [True, False])
async def test_of_the_names_in_a_lock_a_few_leave(requested: bool, index: Index, make: Make) -> None:
    """A cell may leave a notebook among its results, for a person to verify: its lock has the allowance of code."""
    names = [f"{SECRET}-{number}" for number in range(20)]
    packages = [Package(name, "1.0", "0" * 64, requested) for name in names]
    with pytest.raises(InstallRefused, match="asked the index for 10 packages that few") as caught:
        await make().install_locked(packages)
    assert "--unknown-names" in caught.value.mend
    assert asked_for(index) == []
    for each in packages:
        with pytest.raises(InstallError):
            await make().install_locked([each])
    assert len(asked_for(index)) == 10


async def test_what_the_packages_of_a_lock_need_counts_for_nothing(index: Index, make: Make) -> None:
    """The index itself names these. A package that nothing needs counts, also if it claims to be needed."""
    parts = [locked(index, f"part-{number}", requested=False) for number in range(30)]
    whole = locked(index, "whole", requested=True, requires=tuple(each.name for each in parts))
    told: list[list[str]] = []
    installer = make(unknown_names=2)
    installer.tell = lambda _names, unknown: told.append(unknown)
    await installer.install_locked([*parts, whole])
    assert len(installer.installed) == 31
    assert sorted(told[0]) == sorted(each.name for each in (*parts, whole))
    await make(unknown_names=2).install_locked([locked(index, "another", requested=False)])
    with pytest.raises(InstallRefused, match="asked the index for 2 packages that few"):
        await make(unknown_names=2).install_locked([locked(index, "a-third", requested=False)])
    assert "a-third" not in asked_for(index)


async def test_a_lock_that_the_cache_has_asks_nobody(index: Index, make: Make, tmp_path: Path) -> None:
    """So a person's own notebook is verified where it was made, whatever it has."""
    packages = [locked(index, f"own-{number}", requested=True) for number in range(12)]
    await make(unknown_names=20).install_locked(packages)
    asked = len(index.requests)
    again = make(folder=tmp_path / "again" / "site", unknown_names=0)
    await again.install_locked(packages)
    assert len(again.installed) == 12
    assert len(index.requests) == asked


@pytest.mark.parametrize("by_lock", [False, True])
async def test_what_packages_unpack_to_is_bounded_while_they_are(
    by_lock: bool, index: Index, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index states the bytes of the archive. Unpacked, it would fill the host's disk, and stay in uv's cache.

    Only what uv left half done is removed, also where the cache is in a folder that is called like that.
    """
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / ".tmpPeople" / "cache"))
    mine = tmp_path / ".tmpPeople" / "mine"
    mine.parent.mkdir()
    mine.touch()
    bomb = {f"bomb/{number}.txt": "x" * (60 * MIB) for number in range(5)}
    sha256 = index.add("bomb", files=bomb, packed=True, stated=10)
    index.add("small", stated=10)
    installer = make(install_mb=4)
    bomb = Package("bomb", "1.0", sha256, True)
    wanted = installer.install_locked([bomb]) if by_lock else installer.install(["bomb"])
    with pytest.raises(InstallRefused, match="Unpacked, they have more than the 4 MB that are left") as caught:
        await wanted
    assert "--install-mb" in caught.value.mend
    left = [each for each in tmp_path.rglob("*.txt") if each.stat().st_size >= MIB]
    assert left == []
    assert mine.is_file()
    # What was written counts, so that nobody fills the disk little by little.
    await refused(make(install_mb=4), "small", match="would have")


async def test_what_an_index_says_takes_no_more_memory_than_it_may(
    index: Index, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A description is read whole: 16 MB of an archive took 4 GB."""
    monkeypatch.setattr(uv, "MAX_MEMORY", 100 * MIB)
    index.add("wordy", requires=("lib; extra == 'x'",) * 2_000_000, packed=True)
    with pytest.raises(InstallRefused, match="takes more than 100 MB to be read"):
        await make().install(["wordy"])


async def test_empty_files_count(index: Index, make: Make) -> None:
    """A disk has a bounded number of files: a wheel of 22 MB made 300,000 of them."""
    index.add("many", files={f"many/{number}.py": "" for number in range(600)})
    await refused(make(install_mb=2), "many", match=r"would have 3 MB, and may have 2 MB")


async def test_a_persons_own_wish_counts_for_nothing(index: Index, make: Make) -> None:
    """`Session.install` is theirs, and no code has chosen the names."""
    index.add("theirs")
    assert await make(unknown_names=0).install(["theirs"], by_person=True)


@pytest.mark.parametrize("level", list(TrustLevel))
def test_every_level_without_the_whole_network_is_bounded(level: TrustLevel) -> None:
    """A person sets the number; what has the network needs no names."""
    trust = trust_for(level, security={"unknown_names": 3})
    assert trust.narrow(InstallPolicy()).unknown_names == (None if level is TrustLevel.TRUSTED else 3)
    assert trust_for(level, security={"unknown_names": 0}).limits.unknown_names == 0
    assert trust_for(level, security={"install_mb": 5}).narrow(InstallPolicy()).install_mb == 5
    assert Allowance(InstallPolicy(unknown_names=None)).take([Requirement(f"x{each}") for each in range(999)]) == ""


def test_what_is_asked_at_once_is_counted_once(tmp_path: Path) -> None:
    """Requests come from threads, and from more than one place that shares the file."""
    path, taken = tmp_path / "asked.json", []
    allowance = Allowance(InstallPolicy(), path)
    threads = [
        threading.Thread(target=lambda each=each: taken.append(allowance.take([Requirement(f"n{each}")])))  # type: ignore[misc]
        for each in range(50)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert taken.count("") == 10
    for damaged in (b"", b"[]", b'{"unknown": 3}', b"\xff"):
        path.write_bytes(damaged)
        with pytest.raises(InstallError):
            Allowance(InstallPolicy(), path).take([Requirement("x")])
