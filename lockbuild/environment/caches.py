"""What programs leave beside their files and no tree holds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def without_bytecode(root: Path) -> None:
    """Remove every ``__pycache__`` below ``root``: it holds times, and depends on the Python that made it."""
    for directory, names, _ in os.walk(root):
        if "__pycache__" in names:
            names.remove("__pycache__")
            shutil.rmtree(Path(directory) / "__pycache__")
