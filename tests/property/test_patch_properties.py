"""A patch that a real ``diff`` wrote makes of the old tree the new one."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lockbuild.archive.patch import apply_patch

# Few different lines, so that hunks have several places that look alike.
LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"\n", b"-- \n", b"\\ x\n", b"c\r\n", b"\xff\x0c\n"]), max_size=30
)
TEXTS = st.builds(lambda lines, end: b"".join(lines) + end, LINES, st.sampled_from([b"", b"", b"end"]))
FILES = st.dictionaries(st.sampled_from(["f", "d/f", "d/e/f", "x y"]), TEXTS, max_size=3)


def fill(root: Path, files: dict[str, bytes]) -> None:
    root.mkdir()
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@settings(max_examples=150, deadline=None)
@given(old=FILES, new=FILES, context=st.sampled_from(["-U0", "-U1", "-U3"]))
def test_diff_and_apply(old: dict[str, bytes], new: dict[str, bytes], context: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        fill(directory / "a", old)
        fill(directory / "b", new)
        command = ["diff", "-r", "-N", "-a", context, "a", "b"]
        patch = subprocess.run(command, cwd=directory, capture_output=True, check=False).stdout
        if patch:
            apply_patch(patch, directory / "a", name="diff")
        kept = {name for name, data in new.items() if data}
        found = contents(directory / "a")
        # What diff says of a file that became empty is what it says of one that is gone.
        assert {name: data for name, data in found.items() if data} == {name: new[name] for name in kept}
