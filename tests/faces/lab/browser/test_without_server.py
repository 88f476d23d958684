"""The panel where there is no server part of nbagent, or where it is of another age: a sentence, and a way on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faces.lab.browser.conftest import Lab, started
from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab whose server knows nothing of nbagent."""
    with started(
        tmp_path_factory.mktemp("bare"), "--ServerApp.jpserver_extensions={'nbagent.faces.lab': False}"
    ) as lab:
        yield lab


def test_it_says_that_the_server_part_is_missing(bare: Lab, chromium: Browser) -> None:
    """A person reads what is missing and what to do; a question can't be asked."""
    panel = bare.open(chromium, workspace="bare")
    panel.place.get_by_text("not its server part").wait_for()
    panel.place.get_by_role("button", name="Look again").click()
    panel.place.get_by_label("Your question").fill("Which?")
    assert panel.place.get_by_role("button", name="Ask", exact=True).is_disabled()
    panel.picture("missing")
    panel.close()
