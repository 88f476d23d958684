"""jupyter_kernel_test: Jupyter's own tests of what a kernel answers, over both kernelspecs."""

from __future__ import annotations

from typing import Any, ClassVar

import jupyter_kernel_test
import pytest

from nbagent.sandbox.registry import engines


class Messages(jupyter_kernel_test.KernelTests):  # type: ignore[misc]
    """As much as its tests cover; history is off in these kernels."""

    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples: ClassVar[list[dict[str, Any]]] = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "import pathli", "matches": {"pathlib"}},
        {"text": "''.star", "matches": {"startswith"}},
    ]
    complete_code_samples: ClassVar[list[str]] = ["1", "print('hello, world')", "def f(x):\n    return x*2\n\n\n"]
    incomplete_code_samples: ClassVar[list[str]] = ["print('''hello", "def f(x):\n    x*2", "for x in range(3):"]
    invalid_code_samples: ClassVar[list[str]] = ["import = 7q"]
    code_page_something = "zip?"
    code_generate_error = "raise ValueError"
    code_execute_result: ClassVar[list[dict[str, str]]] = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
        {"code": "'ünï'", "result": "'ünï'"},
    ]
    code_display_data: ClassVar[list[dict[str, str]]] = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))", "mime": "text/html"},
        {"code": "from IPython.display import Math, display; display(Math('\\\\frac{1}{2}'))", "mime": "text/latex"},
        {"code": "from IPython.display import JSON, display; display(JSON({'a': 1}))", "mime": "application/json"},
        {"code": "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()", "mime": "image/png"},
    ]
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    test_history = None


class TestBubblewrap(Messages):
    """The kernel in bubblewrap."""

    kernel_name = engines()["bubblewrap"].kernel_name


@pytest.mark.needs("docker")
class TestDocker(Messages):
    """The kernel in Docker."""

    kernel_name = engines()["docker"].kernel_name


del Messages
