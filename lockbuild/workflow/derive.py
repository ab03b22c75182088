"""Derived tools: built once, in the locked environment, from locked inputs, and themselves locked by digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lockbuild.build.plan import Plan, plan_derive
from lockbuild.build.run import run_steps
from lockbuild.environment.compose import compose
from lockbuild.errors import BuildError, IntegrityError
from lockbuild.events import Note
from lockbuild.model.digest import Digest
from lockbuild.model.environment import BUILD_DIR, HOME_DIR, TMP_DIR, Environment, SandboxSpec
from lockbuild.model.lock import LockedTree
from lockbuild.workflow.image import environment_image, load_image
from lockbuild.workflow.project import Project
from lockbuild.workflow.state import new_log
from lockbuild.workflow.trust import trusted
from lockbuild.workflow.workspace import Workspace


def derive_tree(
    workspace: Workspace,
    project: Project,
    tree: LockedTree,
    layers: Sequence[tuple[LockedTree, Digest]],
    digests: Mapping[str, Digest],
) -> tuple[Digest, bool]:
    """The digest of a derived tool, and whether it had to be made now.

    ``layers`` are base and tools, ``digests`` every tree's digest by id (of derives above this one, too).
    IntegrityError where it comes out other than ``tree.digest``; BuildError where a step fails.
    """
    store = workspace.store
    if tree.digest is not None and store.has_tree(tree.digest):
        return tree.digest, False
    environment, plan = derive_plan(workspace, project, tree, layers, digests)
    known = store.recall(plan.digest())
    if known is not None and store.has_tree(known) and tree.digest in (None, known):
        return known, False
    with store.lock(f"derive-{plan.digest().hex}"):
        known = store.recall(plan.digest())  # made by another process while this one waited
        if known is None or not store.has_tree(known):
            known = _run(workspace, project, environment, plan, tree)
    if tree.digest is not None and known != tree.digest:
        raise IntegrityError(
            f"the derived tool came out as {known}, but the lock records {tree.digest}",
            on=f"{project.paths.lock}: {tree.name}",
            hint="its steps are not deterministic, or depend on the kernel or processor; "
            "run them twice with `lockbuild lock --materialise` and compare",
        )
    return known, True


def derive_plan(
    workspace: Workspace,
    project: Project,
    tree: LockedTree,
    layers: Sequence[tuple[LockedTree, Digest]],
    digests: Mapping[str, Digest],
) -> tuple[Environment, Plan]:
    """What a derived tool is made in, and by which steps; arguments as those of `derive_tree`. The store remembers the
    tool by the plan's digest."""
    derive = project.manifest.toolchain.derive[tree.name.partition(".")[2]]
    needed = [
        (other.model_copy(update={"name": f"derive.{need}"}), digests[f"{tree.platform}:derive.{need}"])
        for need in derive.needs
        for other in [_needed_tree(project, tree, need)]
    ]
    assert tree.platform != "any"
    environment = compose(workspace.store, tree.platform, [*layers, *needed])
    return environment, plan_derive(tree.name, derive, environment, tree.mount)


def _needed_tree(project: Project, tree: LockedTree, need: str) -> LockedTree:
    other = project.manifest.toolchain.derive[need]
    return LockedTree(
        name=f"derive.{need}",
        platform=tree.platform,
        unpack="derive",
        mount=other.mount or f"/opt/{need}",
        exports=dict(other.exports),
    )


def _run(
    workspace: Workspace, project: Project, environment: Environment, plan: Plan, tree: LockedTree
) -> Digest:
    backend = workspace.backend
    if not backend.guarantees.reproducible:
        raise BuildError(
            f"a derived tool is never made by the {backend.name!r} back-end, which guarantees nothing",
            on=tree.name,
            hint="use --backend bubblewrap or docker",
        )
    image = environment_image(project, environment)
    image_id = load_image(workspace, project, environment, image)
    spec = SandboxSpec(
        environment=environment,
        writable=(tree.mount, BUILD_DIR, HOME_DIR, TMP_DIR),
        image=image_id,
    )
    workspace.report(
        Note(f"deriving {tree.name}: once, its result is kept in the store; this may take minutes")
    )
    with (
        workspace.store.new_tree() as staged,
        trusted(workspace, environment, plan, thorough=True),
        backend.session(spec) as session,
        new_log(workspace, project.paths, tree.name) as log,
    ):
        try:
            run_steps(plan, session, log, report=workspace.report)
        except BuildError as error:
            hint = f"{error.hint}\n" if error.hint else ""
            raise BuildError(error.what, on=error.on, hint=f"{hint}log: {log.path}") from None
        destination = staged.path / tree.mount.removeprefix("/")
        destination.mkdir(parents=True)
        session.export(tree.mount, destination)
        digest = staged.commit()
    workspace.store.remember(plan.digest(), digest)
    return digest
