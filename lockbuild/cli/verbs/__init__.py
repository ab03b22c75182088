"""One file a verb: its grammar, what it calls, how its result is printed.

``define`` adds the verb's arguments; ``run`` does it and gives the exit status. What a verb needs beyond the grammar
is imported in ``run``: every command defines all of them.
"""

from __future__ import annotations

from lockbuild.cli.verbs import (
    build,
    bundle,
    cache,
    config,
    doctor,
    export,
    image,
    inside,
    lock,
    reproduce,
    schema,
    serve,
    store,
    sync,
)

VERBS = (
    lock,
    sync,
    build,
    reproduce,
    inside,
    image,
    bundle,
    cache,
    serve,
    store,
    config,
    export,
    doctor,
    schema,
)
"""In the order in which --help lists them."""
