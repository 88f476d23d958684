"""What a person presses while a question runs: Stop, and answers to what is asked; widgets, else `input()`."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable
from typing import Any, Protocol

from nbagent.core.events import Record
from nbagent.core.text import visible_lines
from nbagent.safety.questions import LABELS, Choice, Question

HEARD = frozenset(["comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request"])
"""Messages that a front end draws and presses widgets by."""
WHY = "Why not? (Enter for no reason) "


class AnswerGiver(Protocol):
    """Gives the session a person's answer to a question; may be called from any thread."""

    def __call__(self, question: Question, choice: Choice, *, code: str = "", reason: str = "") -> None:
        """Give it."""


class Controls(Protocol):
    """A person's side of a question that runs."""

    def hear(self, record: Record) -> None:
        """Take one of the session's records: what is asked is shown, what is over goes."""

    def open(self, question: Question) -> None:
        """Show a question."""

    def ask(self) -> None:
        """Ask what is open, where asking keeps the caller waiting."""

    def close(self) -> None:
        """Take away what can be pressed."""


class Prompts(Controls):
    """Asks by `input()`, one question after the other."""

    def __init__(self, answer: AnswerGiver) -> None:
        self._answer = answer
        self._open: list[Question] = []

    def hear(self, record: Record) -> None:
        self._open = [each for each in self._open if not each.is_over(record.event)]
        if question := Question.of(record):
            self.open(question)

    def open(self, question: Question) -> None:
        self._open.append(question)

    def ask(self) -> None:
        while self._open:
            self._ask(self._open.pop(0))

    def close(self) -> None:
        self._open = []

    def _ask(self, question: Question) -> None:
        print(described(question), flush=True)
        words = {each: (LABELS[each], each, *(("always",) if each == "session" else ())) for each in question.choices}
        offered = ", ".join(LABELS[each] for each in question.choices)
        choice, code, reason = question.default, "", ""
        while True:
            try:
                said = input(f"{question.text} ({offered}) ").strip().lower()
            except EOFError:
                break
            found = [each for each, known in words.items() if said and any(word.startswith(said) for word in known)]
            if found[:1] == ["edit"] and not (code := self._typed(question.code)):
                continue
            if found:
                choice = found[0]
                break
        if choice == "reject" and question.wants_reason:
            reason = _line(WHY, at_end="").strip()
        self._answer(question, choice, code=code, reason=reason)

    def _typed(self, before: str) -> str:
        """Code typed line by line; empty if it is none, or the same."""
        print("Type the code that is to run instead, and a dot on a line of its own.", flush=True)
        lines = list(iter(lambda: _line("… ", at_end="."), "."))
        code = "\n".join(lines)
        return "" if not code.strip() or code == before else code


def _line(prompt: str, *, at_end: str) -> str:
    """A line that a person types; another one at the end of input."""
    try:
        return input(prompt)
    except EOFError:
        return at_end


class Widgets(Controls):
    """A Stop button, and for each question buttons and a field in which its code can be edited.

    They are shown in the cell by `show`, which returns a widget's `DisplayHandle`.
    """

    def __init__(self, answer: AnswerGiver, *, stop: Callable[[], None], show: Callable[[Any], Any]) -> None:
        import ipywidgets

        self._widgets = ipywidgets
        self._answer = answer
        self._open: dict[str, tuple[Question, Any]] = {}
        self._stop = ipywidgets.Button(description="Stop", icon="stop", tooltip="Stop this question and its cell")
        self._stop.on_click(lambda _: self._pressed(stop))
        self._box = ipywidgets.VBox([self._stop])
        self._shown = show(self._box)

    def hear(self, record: Record) -> None:
        for name, (question, _) in list(self._open.items()):
            if question.is_over(record.event):
                self._remove(name)
        if asked := Question.of(record):
            self.open(asked)

    def open(self, question: Question) -> None:
        self._open[question.id] = (question, self._form(question))
        self._arrange()

    def ask(self) -> None:
        """Do nothing: buttons keep nobody waiting."""

    def close(self) -> None:
        self._open.clear()
        self._box.close()
        self._stop.close()
        # A saved notebook would have a widget that nothing draws any more.
        self._shown.update({"text/plain": ""}, raw=True)

    def _pressed(self, stop: Callable[[], None]) -> None:
        self._stop.disabled = True
        self._stop.description = "Stopping"
        stop()

    def _form(self, question: Question) -> Any:
        widgets = self._widgets
        lines = [widgets.HTML(value="", placeholder=""), widgets.HBox()]
        from nbagent.faces.magic.render import question_html

        lines[0].value = question_html(question)
        field = None
        if "edit" in question.choices:
            field = widgets.Textarea(value=question.code, rows=min(20, question.code.count("\n") + 2))
            field.layout.width = "100%"
            lines.insert(1, field)
        reason = None
        if "reject" in question.choices and question.wants_reason:
            reason = widgets.Text(placeholder="Why not? The model is told.")
        lines[-1].children = [
            *(self._button(question, choice, field, reason) for choice in question.choices),
            *([reason] if reason else []),
        ]
        return widgets.VBox(lines)

    def _button(self, question: Question, choice: Choice, field: Any, reason: Any) -> Any:
        styles = {"approve": "success", "once": "success", "session": "info", "edit": "warning"}
        labels = {"edit": "Run as edited", "session": f"Always ({question.rules})" if question.rules else "Always"}
        button = self._widgets.Button(
            description=labels.get(choice, LABELS[choice].capitalize()), button_style=styles.get(choice, "danger")
        )
        button.layout.width = "auto"

        def press(_: Any) -> None:
            code = field.value if choice == "edit" and field is not None else ""
            why = reason.value if choice == "reject" and reason is not None else ""
            if choice == "edit" and (not code.strip() or code == question.code):
                return
            self._remove(question.id)
            self._answer(question, choice, code=code, reason=why)

        button.on_click(press)
        return button

    def _remove(self, name: str) -> None:
        if found := self._open.pop(name, None):
            found[1].close()
            self._arrange()

    def _arrange(self) -> None:
        self._box.children = [*(form for _, form in self._open.values()), self._stop]


def described(question: Question) -> str:
    """What a question is about, as text."""
    about = "\n".join(question.packages) or question.code
    rules = f"For the session would allow: {question.rules}" if question.rules else ""
    return visible_lines("\n".join(filter(None, [question.title, about, question.note, rules])))


def has_widgets() -> bool:
    """Whether the front end draws widgets, as far as a kernel can know: it is JupyterLab, Notebook or VS Code."""
    from importlib.util import find_spec

    return find_spec("ipywidgets") is not None and bool({"JPY_SESSION_NAME", "VSCODE_PID"} & os.environ.keys())


async def hear(kernel: Any) -> None:
    """Have a kernel take what was clicked: before version 7, ipykernel takes no message while a cell awaits."""
    if (queue := getattr(kernel, "msg_queue", None)) is None:
        return
    heard = []
    for each in [queue.get_nowait() for _ in range(queue.qsize())]:
        with contextlib.suppress(Exception):  # of which the kernel tells when it is its turn
            idents, parts = kernel.session.feed_identities(each[-1][0], copy=False)
            if kernel.session.unpack(parts[1].bytes)["msg_type"] in HEARD:
                heard.append((idents, kernel.session.deserialize(parts, copy=False)))
                continue
        queue.put_nowait(each)
    for idents, message in heard:
        # Not as the kernel would: what the cell prints after that would belong to the click.
        _tell(kernel, "busy", message)
        handled = kernel.shell_handlers[message["header"]["msg_type"]](kernel.shell_stream, idents, message)
        if inspect.isawaitable(handled):
            await handled
        _tell(kernel, "idle", message)


def _tell(kernel: Any, state: str, message: Any) -> None:
    """Tell front ends what a kernel does with a message; until then, they hold the next click back."""
    topic = f"kernel.{kernel.ident}.status".encode()
    kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=message, ident=topic)
