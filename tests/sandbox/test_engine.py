"""What an engine is to those who start its kernels."""

from __future__ import annotations

from nbagent.sandbox.engine import Engine, Report, kernel_specs


def test_an_engine_of_somebody_elses_is_found() -> None:
    """A kernelspec that nbagent does not bring is made from the engine's name."""

    class Other(Engine):
        name = "other"

        def check(self, *, image: str | None = None) -> Report:
            return Report(available=bool(image))

    spec = kernel_specs(Other()).get_kernel_spec("nbagent-other")
    assert spec.metadata["kernel_provisioner"]["provisioner_name"] == "nbagent-other"
    assert spec.interrupt_mode == "message"
