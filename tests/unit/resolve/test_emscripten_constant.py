"""Values of expressions that nobody runs: the same as Python's where they are understood, and refused where not."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockbuild.resolve.emscripten.constant import NotConstantError, Scope


def value(module: str, expression: str, **replacements: Any) -> Any:
    return Scope(ast.parse(module), replacements=replacements).value(ast.parse(expression, mode="eval").body)


MODULE = """
import os
A: str = '1.2'
B = 'v' + A
VERSION = (3, 39, 0)
YEAR = 2022
HASHES = {'x': 'aa', 'y': 'bb'}
NONE = None
"""


@pytest.mark.parametrize(
    "expression",
    [
        "A",
        "B + '.zip'",
        "f'{A}-{B}.zip'",
        "f'a{VERSION[0]}{VERSION[1]:02}{VERSION[2]:02}00'",
        "f'{YEAR:05d}/{A:8s}|{A!s}'",
        "'%s-%s' % (A, B)",
        "'%s%%' % A",
        "'%02d' % YEAR",
        "'%(a)s-%(b)05d' % {'a': A, 'b': 7}",
        "'{}-{}'.format(A, B)",
        "'{1}-{0}-{a}-{{}}'.format(A, B, a=YEAR)",
        "HASHES['y']",
        "VERSION[-1]",
        "A[0]",
        "A.replace('.', '_')",
        "A.split('.')[1]",
        "'.'.join(['a', A])",
        "'Ab'.lower() + 'Ab'.upper()",
        "str(YEAR) + str(VERSION[1])",
        "NONE",
        "('a', ('b', 1))",
        "('a',) + ('b',)",
        "{'a': {'b': (1, 'c')}}",
        "True",
    ],
)
def test_the_same_as_python(expression: str) -> None:
    names: dict[str, Any] = {}
    exec(MODULE, names)
    assert value(MODULE, expression) == eval(expression, names)


@pytest.mark.parametrize(
    ("module", "expression", "why"),
    [
        ("", "A", "A is not assigned in this file"),
        ("A = 'a'\nA = 'b'", "A", "A is not assigned once and for all"),
        ("if x: A = 'a'", "A", "A is not assigned once and for all"),
        ("A = 'a'\ntry: A\nexcept E as A: pass", "A", "once and for all"),
        ("A = 'a'\nfor A in x: pass", "A", "once and for all"),
        ("A = 'a'\ndef A(): pass", "A", "once and for all"),
        ("A = 'a'\nimport x as A", "A", "once and for all"),
        ("A = 'a'\ndel A", "A", "once and for all"),
        ("A = 'a'\nA += 'b'", "A", "once and for all"),
        ("A = 'a'\n(A := 'b')", "A", "once and for all"),
        ("A = 'a'\ndef f():\n global A\n A = 'b'", "A", "once and for all"),
        ("A, B = 'a', 'b'", "A", "once and for all"),
        ("A = B\nB = A", "A", "nested too deeply"),
        ("A = __import__('os').system('false')", "A", "it is not a constant"),
        ("A = open('/etc/passwd').read()", "A", "is not"),
        ("", "''.join(x for x in 'ab')", "it is not a constant"),
        ("", "lambda: 1", "it is not a constant"),
        ("", "1 if x else 2", "it is not a constant"),
        ("", "'a' * 9", "it is not a constant"),
        ("", "2 ** 9", "it is not a constant"),
        ("", "1.5", "it is not a constant"),
        ("", "b'a'", "it is not a constant"),
        ("", "'a' + 1", "it adds what are not two strings"),
        ("", "f'{1:1000000000}'", "the format '1000000000' is not known"),
        ("", "'%1000000000d' % 1", "its format is not known"),
        ("", "'{:1000000000}'.format(1)", "the format '1000000000' is not known"),
        ("", "'{0.__class__}'.format('a')", "there is no value for {0.__class__}"),
        ("", "'{a[0]}'.format(a='a')", "there is no value for {a[0]}"),
        ("", "'{!r}'.format('a')", "its conversion is not known"),
        ("", "f'{1!r}'", "its conversion is not known"),
        ("", "'{}'.format()", "there is no value for {}"),
        ("", "'{'.format()", "Single '{' encountered"),
        ("", "'{}'.format(*'a')", "it is not a constant"),
        ("", "'{a}'.format(**{'a': 'b'})", "it is not a constant"),
        ("", "'%s' % ('a', 'b')", "more values than places"),
        ("", "'%s %s' % 'a'", "there is no value for %s"),
        ("", "'%(b)s' % {'a': 'b'}", "there is no value for %(b)s"),
        ("", "f'{True}'", "a string or a number is needed"),
        ("", "f'{None}'", "a string or a number is needed"),
        ("", "{'a': 'b'}['c']", "there is no such item"),
        ("", "'a'[1]", "there is no such item"),
        ("", "'ab'[:1]", "it is not a constant"),
        ("", "{**{'a': 'b'}}", "it is not a constant"),
        ("", "[*'ab']", "it is not a constant"),
        ("", "'a'.encode()", "the call of .encode is not understood"),
        ("", "'a'.replace('', 'b')", "not understood"),
        ("", "'a'.split()", "not understood"),
        ("", "'a,b'.join(['c', 1])", "not understood"),
    ],
)
def test_what_is_not_a_constant(module: str, expression: str, why: str) -> None:
    with pytest.raises(NotConstantError) as caught:
        value(module, expression)
    assert why in caught.value.why
    assert caught.value.line >= 1


def test_names_of_functions_hide_those_of_the_module() -> None:
    module = ast.parse("A = 'a'\nB = 'b'\ndef f(B):\n  C = A + 'c'\n  def g():\n    nonlocal C\n")
    outer = Scope(module)
    function = module.body[2]
    assert isinstance(function, ast.FunctionDef)
    inner = Scope(function, outer)
    assert inner.value(ast.parse("A", mode="eval").body) == "a"
    for name in ("B", "C"):
        with pytest.raises(NotConstantError, match="once and for all"):
            inner.value(ast.parse(name, mode="eval").body)


def test_growing_without_end_is_refused_and_costs_nothing() -> None:
    doubling = "A0 = 'x'\n" + "".join(f"A{n + 1} = A{n} + A{n}\n" for n in range(50))
    with pytest.raises(NotConstantError, match="longer than"):
        value(doubling, "A20")
    with pytest.raises(NotConstantError, match="nested too deeply"):
        value(doubling, "A50")
    pairs = "A0 = 'x'\n" + "".join(f"A{n + 1} = (A{n}, A{n})\n" for n in range(25))
    assert value(pairs, "A25[0][1]") == value(pairs, "A24[1]")
    replaced = "'" + "a" * 1000 + "'.replace('a', '" + "b" * 1000 + "')"
    with pytest.raises(NotConstantError, match="longer than"):
        value("", replaced)
    joined = "'" + "b" * 60_000 + "'.join(['a', 'a', 'a', 'a'])"
    with pytest.raises(NotConstantError, match="longer than"):
        value("", joined)


def test_literals_behind_an_expression() -> None:
    module = "V = '1'\nT = f'v{V}'\nW = T\nX = W + Y\nY = ('a',)\nL = L2\nL2 = L\n"
    scope = Scope(ast.parse(module))

    def literals(expression: str) -> set[str]:
        return scope.literals(ast.parse(expression, mode="eval").body)

    assert literals("f'{W}-{V}'") == {"V"}
    assert literals("X") == {"V", "Y"}
    assert literals("'a'") == set()
    assert literals("L + unknown") == set()


def test_replaced_names() -> None:
    assert value("V = '1'\nT = f'v{V}'", "T", V="2") == "v2"
    assert value("V = '1'\nT = f'v{V}'", "T") == "v1"


_TEXT = st.text(alphabet="ab1. _-%{}", max_size=8)


@given(_TEXT, st.lists(st.one_of(_TEXT, st.integers(0, 999)), max_size=3))
def test_percent_and_braces_as_python_or_refused(template: str, values: list[str | int]) -> None:
    for expression in (
        f"{template!r} % {tuple(values)!r}",
        f"{template!r}.format(*{values!r})".replace("*[", "["),
    ):
        if ".format" in expression:
            expression = f"{template!r}.format({', '.join(map(repr, values))})"
        try:
            ours = value("", expression)
        except NotConstantError:
            continue
        assert ours == eval(expression)
