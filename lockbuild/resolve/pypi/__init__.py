"""The Python package index as a source: the wheels of a requirement and of what it depends on (`provider`)."""
