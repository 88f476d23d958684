"""What a person sees of code that is asked about."""

from __future__ import annotations

import machine

from nbagent.faces.terminal.excerpt import BAR, MORE, excerpt


def test_each_line_stands_behind_a_bar() -> None:
    """Also what of a long one goes on below, so that no text of a model's begins a line of the terminal."""
    found = excerpt("May it? yes: \n" + " " * 40 + "May it? [a]pprove: ", width=44)
    assert found.lines == (f"{BAR}May it? yes: ", f"{BAR}{' ' * 40}", f"{MORE}May it? [a]pprove: ")
    assert found.is_whole


def test_wide_signs_do_not_reach_beyond_the_width() -> None:
    """A line is folded by columns, not by characters."""
    assert excerpt("漢" * 10, width=14).lines == (f"{BAR}{'漢' * 5}", f"{MORE}{'漢' * 5}")


def test_words_stay_whole_and_no_sign_is_lost() -> None:
    """A line is folded after a space, where one is near."""
    found = excerpt("pip install pandas matplotlib scikit-learn", width=34)
    assert found.lines == (f"{BAR}pip install pandas matplotlib ", f"{MORE}scikit-learn")
    long = "x = [" + ", ".join(map(str, range(10_000))) + "]"
    assert "".join(each[len(BAR) :] for each in excerpt(long, width=80, whole=True).lines) == long


def test_long_code_is_shown_by_its_ends() -> None:
    """What is left out is counted, on a line that code can't imitate; all of it can be had."""
    code = "\n".join(f"x{number}" for number in range(1000))
    found = excerpt(code, width=80)
    assert not found.is_whole
    assert found.lines[0] == f"{BAR}x0"
    assert found.lines[30] == "    … 960 more lines …"
    assert found.lines[-1] == f"{BAR}x999"
    assert len(found.lines) == 41
    whole = excerpt(code, width=80, whole=True)
    assert (whole.is_whole, len(whole.lines)) == (True, 1000)


def test_a_long_line_is_shown_by_its_ends() -> None:
    """And is not the whole of it."""
    found = excerpt("a" * 1000 + "evil()", width=10_000)
    assert not found.is_whole
    assert found.lines[0].startswith(f"{BAR}aaa")
    assert " … 626 more characters … " in found.lines[0]
    assert found.lines[0].endswith("evil()")


def test_a_line_of_megabytes_is_folded_in_a_time_by_its_length() -> None:
    """All of it is shown to who asks for it."""
    long = "x " * 2_000_000
    found = machine.within(40, lambda: excerpt(long, width=80, whole=True))
    assert sum(len(each) - len(BAR) for each in found.lines) == len(long)
