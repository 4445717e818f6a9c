"""Builds plugins in Python: from a project folder to a component."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036
    found = ".".join(map(str, sys.version_info[:2]))
    sys.exit(
        f"error: this is Python {found}, and the build needs 3.11 or later; make .venv anew: python3.11 -m venv .venv"
    )
