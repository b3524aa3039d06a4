"""The installed program: says which extra is missing where only the libraries were installed."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the program."""
    try:
        from iggykube.__main__ import main as run

        run()  # commands are imported when they are used
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("iggy"):
            raise
        fix = "install it with: pip install 'iggykube[cli]'"
        sys.exit(f"iggykube: the Python package {error.name} is missing: {fix}")
