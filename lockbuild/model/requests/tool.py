"""What every tool can say beside where it comes from."""

from __future__ import annotations

from lockbuild.model.requests.fields import Environment, MountPath
from lockbuild.model.requests.request import Request


class Tool(Request):
    """What every tool can say beside where it comes from."""

    mount: MountPath | None = None
    """Where it stands in the environment: a path below /opt; by default ``/opt/NAME``."""
    exports: Environment = {}
    """Variables for every process in the environment; ``$OUT`` in a value is the mount point."""

    def place(self, name: str) -> str:
        """Where the tool called ``name`` stands."""
        return self.mount or f"/opt/{name}"
