"""What is masked before texts are compared: bars, timings and addresses, never a result; and a person's own masks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import machine
import pytest
from notebook.compare.shared import compared

from nbagent.core.errors import UsageError
from nbagent.notebook.compare.masks import INSTALLED, masked, read_masks
from nbagent.notebook.compare.reads import Code


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("<object at 0x7f0011aabb00>", "<object at 0x7fe2>"),
        ("1.23 ms ± 45 µs per loop (mean ± std. dev. of 7 runs, 1,000 loops each)",
         "980 µs ± 3.1 µs per loop (mean ± std. dev. of 7 runs, 1,000 loops each)"),
        ("r  TimeitResult  354 μs ± 115 μs per loop <...>7 runs, 1,000 loops each)",
         "r  TimeitResult  8.1 μs ± 1.548 μs per loo<...> runs, 10,000 loops each)"),
        ("<Task name='Task-4' coro=<install_missing.<locals>.run() running at /run/nbagent/client_inside.py:145>",
         "<Task name='Task-9' coro=<InteractiveShell.run_cell_async() running at "
         "/opt/lib/python3.11/site-packages/IPython/core/interactiveshell.py:3408>"),
        ("CPU times: user 3 µs, sys: 1 µs, total: 4 µs\nWall time: 5.01 µs",
         "CPU times: user 1.2 s, sys: 0 ns, total: 1.2 s\nWall time: 1min 3s"),
        ("100%|██████████| 10/10 [00:01<00:00,  9.8it/s]", "100%|█████████▉| 10/10 [00:00<00:00, 120.1it/s]"),
        ("/tmp/tmpab12_xyz/a.csv", "/tmp/tmpqqqqqqqq/a.csv"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("Cell In[3], line 1", "Cell In[17], line 1"),
        ("/tmp/ipykernel_77/123456.py:3: UserWarning: x", "/tmp/ipykernel/99.py:3: UserWarning: x"),
        ("0.1234567890123", "0.1234567890124"),
        ("a   b", "a b"),
        ("<Task pending name='Task-36'> ThreadPoolExecutor-0_0", "<Task pending name='Task-5'> ThreadPoolExecutor-0_1"),
        ("os.stat_result(st_ino=66, st_size=1)", "os.stat_result(st_ino=79, st_size=1)"),
        ("Device: 0,214\tInode: 6   Links: 1\nAccess: (0644/-rw-r--r--)  Uid: (88524/ sandbox)   Gid: (88524/ sandbox)",
         "Device: 0,49\tInode: 12  Links: 1\nAccess: (0644/-rw-r--r--)  Uid: ( 1001/ sandbox)   Gid: ( 1001/ sandbox)"),
        ("/home/x/lib/python3.9/site-packages/p/a.py:3: W", "/opt/lib/python3.11/site-packages/p/a.py:3: W"),
        ("<module 'a' from '/root/x/lib/python3.11/a.py'>", "<module 'a' from '/opt/lib/python3.11/a.py'>"),
        ("   1    0.001    0.001    0.000    0.000 a:1(f)", "   1    0.000    0.000    0.000    0.000 a:1(f)"),
        ("dl \x1b[38;5;237m━━━━\x1b[0m━━━━ \x1b[35m 75%\x1b[0m \x1b[36m0:00:01\x1b[0m", "dl ━━━╸━━━━ 100% 0:00:00 "),
        (r'"dl <span style=\"a\">━━━</span><span style=\"b\">╺━</span> <span style=\"c\"> 75%</span>"',
         r'"dl <span style=\"a\">━━━━━</span> <span style=\"c\">100%</span> <span style=\"d\">0:00:00</span>"'),
        ("\u20073/3\u2007[00:00&lt;00:00,\u200738.63it/s]", "\u20073/3\u2007[00:00&lt;00:00,\u2007\u20072.06it/s]"),
        ("\x1b]8;id=712;file:///a.py\x1b\\a.py", "\x1b]8;id=49;file:///a.py\x1b\\a.py"),
        ("  0%|      | 0/3 [00:00<?, ?it/s]100%|##| 3/3 [00:00<00:00, 2.4it/s]", "100%|##| 3/3 [00:00<00:00, 9it/s]"),
        ("12it [00:00, 222.98it/s]", "12it [00:01, 9.1it/s]"),
        ("outer:  33%|██| 1/3 [00:00<?, ?it/s]\nouter: 100%|███| 3/3 [00:00<00:00, 3.9it/s]",
         "outer: 100%|███| 3/3 [00:00<00:00, 8.7it/s]"),
    ],
)  # fmt: skip
def test_what_is_never_a_result_is_not_compared(stored: str, fresh: str) -> None:
    """Addresses, IPython's timings, progress bars, temporary files, colours, numbers of cells, the last digits."""
    assert compared(stored, fresh).differences == []


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("Task-7 failed", "Task-3 failed"),
        ("Device: 12 sold", "Device: 99 sold"),
        ("Uid: (12 apples", "Uid: (99 apples"),
        ("share ━━━━━━ 93%", "share ━━━━━━ 12%"),
        ("1 9", "1 … 9"),
        (
            "100%|##| 2/2 [00:01<00:00, loss=0.9]\n100%|##| 2/2 [00:01<00:00, loss=0.5]",
            "100%|##| 2/2 [00:01<00:00, loss=0.7]\n100%|##| 2/2 [00:01<00:00, loss=0.5]",
        ),
        ("The slowest run took 5 times longer than the fastest. Revenue: 5 M.\n3 rows", "3 rows"),
        ("Wall time: revenue was 5,000,000 dollars", "Wall time: 3 ms"),
        ("CPU times: user 3 µs, sys: 1 µs, total: profits", "CPU times: user 3 µs, sys: 1 µs, total: 4 µs"),
        ("100%|Revenue 5,000,000 USD| 3/3 [00:01<00:00]", "100%|███| 3/3 [00:01<00:00]"),
        ("100%|███| 3/3 [00:01 revenue 5,000,000]", "100%|███| 3/3 [00:01<00:00]"),
        ("3/3 [00:01 revenue 5,000,000]", "3/3 [00:01]"),
        ("12 it [00:01, revenue 5000000 USD/year]", "12 it [00:01, 3it/s]"),
        ("Device: 5-million-dollars-of-revenue", "Device: 5"),
    ],
)
def test_nothing_can_be_said_within_what_is_masked(stored: str, fresh: str) -> None:
    """Else a notebook could show a result that its cells never gave, and be called the same."""
    assert compared(stored, fresh).differences


def test_bytes_are_the_same_in_either_quotes() -> None:
    """Which ones Python takes depends on whether an apostrophe is in them, as it may be in random ones."""
    code = "import os\nos.urandom(4)"
    assert compared('b"\'\\x80\\x12a"', "b'\\x01\\xf1Zb'", "b'\\x9e\\x03qq'", code=code).excused == {"id"}
    assert compared('b"it\'s"', "b'its'", code="x").differences


def test_rows_of_a_profile_come_in_the_order_of_their_times() -> None:
    """Which is none of a result's; of the longest few, others may be among them in each run. Counts are compared."""

    def row(count: int, name: str) -> str:
        return f"{count:9}    0.001    0.000    0.002    0.000 {name}\n"

    one, other, third = row(1, "a.py:3(f)"), row(20, "{built-in method builtins.exec}"), row(7, "b.py:9(g)")
    code = "%prun -l 2 f()"
    assert compared(one + other, other + one, other + one, code=code).differences == []
    assert compared(one + other, other + third, one + third, code=code).excused == {"timing"}
    assert compared(one + other, other + third, other + third, code=code).differences
    assert compared(one + other, other + row(2, "a.py:3(f)"), code=code).differences


def test_a_sandboxs_own_folder_is_its_users_or_roots() -> None:
    """By whichever engine it is there; another owner, size or permission is a difference."""
    row = "total 0\ndrwxr-xr-x 2 {} 40 Nov 27 02:07 .\n"
    stored, fresh = row.format("sandbox sandbox"), row.format("root    root   ")
    assert compared(stored, fresh, fresh, code="!ls -la /tmp/data").differences == []
    for other in (row.format("ada ada"), stored.replace("x 2", "x 3"), stored.replace("xr-x 2", "xrwx 2"), "root"):
        assert compared(other, fresh, fresh, code="!ls -la /tmp/data").differences


def test_a_persons_masks_are_nbvals(tmp_path: Path) -> None:
    """Sections with `regex` and `replace`; a wrong one is told."""
    path = tmp_path / "masks.cfg"
    path.write_text("[runs]\nregex: run \\d+\nreplace: RUN\n")
    assert compared("run 7 of x", "run 12 of x", masks=read_masks(path)).differences == []
    for wrong in ("[a]\nregex: (\nreplace: x\n", "[a]\nregex: x\n", "no section"):
        path.write_text(wrong)
        with pytest.raises(UsageError):
            read_masks(path)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (masked, "%|BAR|" * 30_000),
        (masked, "<span a>━</span>" * 15_000),
        (Code().take, f"{'!df ' * 40}\nx"),
        (Code().take, f"!{'ls -x ' * 15_000}"),
        (Code().take, f"%%bash {'ls -x ' * 15_000}"),
    ],
)
def test_what_could_be_read_in_many_ways_is_read_in_one(read: Callable[[str], object], text: str) -> None:
    """Of bars, spans and programs: a cell of 160 characters took longer than anybody waits."""
    machine.within(20, lambda: read(text))


def test_what_was_installed_is_masked_by_whatever_name() -> None:
    """Names have hyphens, and versions have parts after them."""
    for name in ("scikit-learn-1.5", "a-1.0.post1", "b-1.0-2", "x-2.0rc1 ruamel.yaml-0.18-3"):
        assert INSTALLED.apply(f"Successfully installed {name}\nx") == "x"
    assert INSTALLED.apply("Successfully installed revenue") == "Successfully installed revenue"


@pytest.mark.parametrize(
    "added",
    ["Revenue was 12 million:   5%|█| 1/20 [00:01<00:03]", "  5%|█| 1/20 [00:01<00:03] a revenue of 12 million",
     "  5%|█| 1/20 [00:01<00:03, revenue=12]", "12,000,000   5%|█| 1/20 [00:01<00:03]"],
)  # fmt: skip
def test_words_beside_a_bar_are_compared(added: str) -> None:
    """Of states that an end follows, numbers are of time; words that no end has are said nowhere else."""
    end = "epoch: 100%|██████████| 10/10 [00:01<00:00, 9.8it/s, loss=0.2]\n"
    state = "epoch:  50%|█████     | 5/10 [00:01<00:00, 9.8it/s, loss=0.5]\n"
    assert compared(state + end, end).differences == []
    load = (
        "x:  20%|██        | 12.0k/1.20M [00:01<00:03, 9.8kB/s]\n"
        "x: 100%|██████████| 1.20M/1.20M [00:04<00:00, 9.8MB/s]\n"
    )
    assert compared(load, load.partition("\n")[2]).differences == []
    assert compared(f"{added}\n{end}", end).differences


@pytest.mark.parametrize(
    "line",
    ["Requirement already satisfied: the revenue is 12 million", "Installing collected packages: a revenue of 12"],
)
def test_what_pip_says_has_its_form(line: str) -> None:
    """Else a cell that installs something could say anything."""
    assert INSTALLED.apply(line) == line
    for said in (
        "Requirement already satisfied: numpy>=1.2 in /usr/lib/python3 (from pandas) (1.26.4)",
        "Requirement already satisfied: cycler in ./x",
        "Installing collected packages: a, b",
        "  Installing build dependencies: finished with status 'done'",
    ):
        assert INSTALLED.apply(f"{said}\n") == ""
