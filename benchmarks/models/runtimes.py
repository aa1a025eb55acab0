"""Runtimes for models of other libraries: each runs a model's torch function, exported as ONNX."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.suite.peers import Peer, Prepared, Torch, leaves
from benchmarks.suite.row import Row, Work

THREADS = "OMP_NUM_THREADS"


def threads() -> int:
    """Return how many threads each library has in this process."""
    return int(os.environ.get(THREADS, os.cpu_count() or 1))


def exported(work: Work) -> bytes:
    """Return the torch function of a work as an ONNX model, its weights as constants.

    Inputs are named `x0`, `x1`, ... and have their sizes.
    """
    torch, of = importlib.import_module("torch"), work.torch
    assert of is not None
    convert = Torch()
    convert.load()
    weights, *inputs = work.arguments
    names = list(weights)

    class Exported(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            for i, name in enumerate(names):
                self.register_buffer(f"w{i}", convert.tensor(weights[name]))

        def forward(self, *xs: Any) -> Any:
            kept = {name: getattr(self, f"w{i}") for i, name in enumerate(names)}
            return of(torch, kept, *xs)

    arguments = tuple(convert.tensor(x) for x in inputs)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            Exported().eval(),
            arguments,
            str(path),
            input_names=[f"x{i}" for i in range(len(arguments))],
            dynamo=True,
            external_data=False,
            optimize=True,
            verbose=False,
        )
        return path.read_bytes()


class _Exports:
    """The last exported model, which two runtimes share."""

    work: Work | None = None
    model = b""

    def of(self, work: Work) -> bytes:
        if self.work is not work:
            self.model, self.work = exported(work), work
        return self.model


_exports = _Exports()


class Runtime(Peer):
    """A library that takes part in the rows that can be exported."""

    needs = ("torch", "onnx", "onnxscript")

    def missing(self) -> str | None:
        """Return why the library cannot take part, or None."""
        for package in (self.package, *self.needs):
            if importlib.util.find_spec(package) is None:
                return f"{package} is not installed"
        return None

    def load(self) -> None:
        """Import the library."""
        self.module = importlib.import_module(self.package)

    def prepare(self, row: Row, work: Work) -> Prepared | None:
        """Return the call of the exported model, on NumPy arrays."""
        if not row.exported or work.torch is None:
            return None
        feeds = {f"x{i}": x for i, x in enumerate(leaves(list(work.arguments[1:])))}
        return Prepared({"f": self.call(_exports.of(work), feeds)}, False)

    def call(self, model: bytes, feeds: dict[str, Any]) -> Any:
        """Return a function without arguments that runs the model."""
        raise NotImplementedError


class OnnxRuntime(Runtime):
    """ONNX Runtime on its CPU provider."""

    name = package = "onnxruntime"

    def call(self, model: bytes, feeds: dict[str, Any]) -> Any:
        """Return a function without arguments that runs the model."""
        options = self.module.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads(), 1
        options.log_severity_level = 3
        session = self.module.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)


class OpenVino(Runtime):
    """OpenVINO on its CPU plugin, in single precision like all others."""

    name = package = "openvino"

    def call(self, model: bytes, feeds: dict[str, Any]) -> Any:
        """Return a function without arguments that runs the model."""
        core = self.module.Core()
        settings = {
            "INFERENCE_NUM_THREADS": threads(),
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = core.compile_model(core.read_model(model), "CPU", settings)
        request = compiled.create_infer_request()

        def run() -> list[Any]:
            found = request.infer(feeds, share_inputs=True, share_outputs=True)
            return [found[output] for output in compiled.outputs]

        return run
