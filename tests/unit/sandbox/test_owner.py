"""Telling a dead lockbuild's containers from others'."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from lockbuild.sandbox.owner import Owner


def test_this_process_lives() -> None:
    assert not Owner.current().is_dead()


def test_it_survives_being_written() -> None:
    assert Owner.parse(str(Owner.current())) == Owner.current()


def test_an_ended_process_is_dead_even_as_a_zombie() -> None:
    code = "from lockbuild.sandbox.owner import Owner; print(Owner.current(), flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        owner = Owner.parse(child.stdout.read().strip())
        assert owner is not None
        assert owner.pid == child.pid
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_dead()
    assert owner.is_dead()


def test_another_process_with_the_same_id_is_not_it() -> None:
    assert replace(Owner.current(), started=1).is_dead()


@pytest.mark.parametrize("field", ["boot", "namespace"])
def test_nothing_is_known_of_another_machine(field: str) -> None:
    other = replace(Owner.current(), **{field: "other"}, pid=2**22 + 1)
    assert not other.is_dead()


@pytest.mark.parametrize("text", ["", "a/b/c/d", "a/b/1", "a/b/1/-2"])
def test_what_is_no_owner(text: str) -> None:
    assert Owner.parse(text) is None
