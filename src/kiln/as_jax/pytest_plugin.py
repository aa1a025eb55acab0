"""A pytest plugin under which `jax` is kiln: `pytest -p kiln.as_jax.pytest_plugin`.

Options: `--kiln-linen` replaces `flax.linen` as well, `--kiln-report` prints at the end which names
of JAX were used and missing.
"""

from __future__ import annotations

from typing import Any

from kiln.as_jax.doctor import record_failure
from kiln.as_jax.finder import install
from kiln.as_jax.report import examining, report, start_report

install()


def pytest_addoption(parser: Any) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("kiln")
    group.addoption("--kiln-linen", action="store_true", help="flax.linen is kiln.linen")
    group.addoption("--kiln-report", action="store_true", help="list used and missing names")


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Apply the options before any test is imported."""
    options = early_config.known_args_namespace
    if options.kiln_report:
        start_report()
    install(linen=options.kiln_linen)


def pytest_exception_interact(call: Any) -> None:
    """Pass failures, which pytest catches, to the doctor."""
    if examining():
        record_failure(call.excinfo.value)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Print the report."""
    if config.getoption("--kiln-report"):
        terminalreporter.section("names of jax")
        terminalreporter.write_line(report())
