from __future__ import annotations

import pytest

from lockbuild.environment.maintainer import (
    Alternative,
    AlternativeLink,
    Diversion,
    alternatives,
    diversions,
)

AWK = Alternative(AlternativeLink("/usr/bin/awk", "awk", "/usr/bin/mawk"), 5)


@pytest.mark.parametrize(
    "script",
    [
        "update-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5",
        "\tupdate-alternatives --quiet --install /usr/bin/awk awk /usr/bin/mawk 5 || true",
        "if x; then /usr/bin/update-alternatives --force --install '/usr/bin/awk' \"awk\" /usr/bin/mawk 5; fi",
        "update-alternatives --install \\\n  /usr/bin/awk \\\n awk /usr/bin/mawk \\\n\t5 >/dev/null 2>&1",
        "true && update-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5 # the one true awk's",
        'case "$1" in\n configure)\n update-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5;;\nesac',
    ],
)
def test_a_literal_call_is_read(script: str) -> None:
    assert alternatives(script) == [AWK]


def test_slaves_belong_to_the_call_that_names_them() -> None:
    script = (
        "update-alternatives --install /usr/bin/cc cc /usr/bin/gcc 20 \\\n"
        "  --slave /usr/share/man/man1/cc.1.gz cc.1.gz /usr/share/man/man1/gcc.1.gz \\\n"
        "  --slave /usr/bin/c89 c89 /usr/bin/c89-gcc\n"
        "update-alternatives --install /usr/bin/c++ c++ /usr/bin/g++ -3\n"
    )
    first, second = alternatives(script)
    assert [slave.name for slave in first.slaves] == ["cc.1.gz", "c89"]
    assert first.slaves[1] == AlternativeLink("/usr/bin/c89", "c89", "/usr/bin/c89-gcc")
    assert (second.master.name, second.priority, second.slaves) == ("c++", -3, ())


@pytest.mark.parametrize(
    "script",
    [
        "# update-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5",
        "update-alternatives --install /usr/bin/$i $i /usr/bin/vim 5",
        "update-alternatives --install /usr/bin/awk awk `which mawk` 5",
        "update-alternatives --install /usr/bin/awk awk /usr/bin/mawk ${priority}",
        "update-alternatives --install /usr/bin/awk awk /usr/bin/mawk",
        "update-alternatives --install /usr/bin/awk ../awk /usr/bin/mawk 5",
        "update-alternatives --install usr/bin/awk awk /usr/bin/mawk 5",
        "update-alternatives --remove awk /usr/bin/mawk",
        "update-alternatives --auto awk",
        'echo "update-alternatives --install /usr/bin/awk awk',
    ],
)
def test_what_is_no_literal_call_is_left_out(script: str) -> None:
    assert alternatives(script) == []


def test_a_diversion_is_read() -> None:
    script = (
        "dpkg-divert --package dash --divert /bin/sh.distrib --rename --add /bin/sh\n"
        "dpkg-divert --package=x --divert=/b --add /a\n"
        "dpkg-divert --add --rename /usr/bin/c\n"
    )
    assert diversions(script) == [
        Diversion("/bin/sh", "/bin/sh.distrib"),
        Diversion("/a", "/b"),
        Diversion("/usr/bin/c", "/usr/bin/c.distrib"),
    ]


@pytest.mark.parametrize(
    "script",
    [
        "dpkg-divert --package p --remove --rename --divert /b /a",
        'dpkg-divert --divert "$1.old" --add "$1"',
        "dpkg-divert --list",
    ],
)
def test_other_calls_of_dpkg_divert_are_left_out(script: str) -> None:
    assert diversions(script) == []
