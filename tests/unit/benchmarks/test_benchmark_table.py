"""The benchmarks are not timed here: that they import, judge by their targets and print a true table is enough."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import BENCHMARKS, machine, main
from benchmarks.measure import CHECKOUT
from benchmarks.table import Row, read, render


def test_table() -> None:
    rows = [
        Row("fast", "peer", "s", 4.0, 16.0, at_most=0.4, notes=("alone",)),
        Row("slow", "peer", "ms", 300.0, 100.0, at_most=3, limit=250, notes=("alone", "shared")),
        Row("known", "", "MB", 12.34),
    ]
    assert render(rows) == (
        "| what         | ours    | peer          | ratio | target          | ok  |\n"
        "| ------------ | ------- | ------------- | ----- | --------------- | --- |\n"
        "| fast [1]     | 4.00 s  | 16.0 s (peer) | 0.25  | ≤ 0.4 ×         | yes |\n"
        "| slow [1] [2] | 300 ms  | 100 ms (peer) | 3.00  | ≤ 3 ×, ≤ 250 ms | NO  |\n"
        "| known        | 12.3 MB |               |       |                 |     |\n"
        "\n[1] alone\n"
        "\n[2] shared\n"
    )
    assert [row.ok for row in rows] == [True, False, None]


def test_json() -> None:
    row = Row("fast", "peer", "s", 1 / 3, 2 / 3, at_most=1, runs={"ours": [1 / 3]})
    value = json.loads(json.dumps(row.value()))
    assert value["ratio"] == 0.5
    assert value["ok"] is True
    assert value["runs"] == {"ours": [0.3333]}
    assert read({"rows": [value]})[0].value() == value


def test_the_documented_table_is_that_of_the_reference() -> None:
    reference = json.loads((CHECKOUT / "benchmarks" / "reference.json").read_text())
    assert render(read(reference)) in (CHECKOUT / "docs" / "benchmarks.md").read_text()
    assert set(reference["machine"]) == set(machine())
    assert len({row["what"] for row in reference["rows"]}) >= len(BENCHMARKS)


def test_machine_facts_do_not_name_the_machine() -> None:
    assert set(machine()) == {"date", "cores", "cpu", "memory_gb", "kernel", "python", "load"}


def test_unknown_name_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nonsense"])
    assert ended.value.code == 2
    assert ", ".join(BENCHMARKS) in capsys.readouterr().err
