"""The libraries' own tests, unmodified, on kiln: `python -m tests.libraries.suites --help`."""
