"""The list of culprits: the first, then one entry per further fault, however many places show it."""

from __future__ import annotations

from collections.abc import Sequence

from minimizer.engine.levels.from_outcomes import culprit_of
from minimizer.engine.localize.equal_windows import pattern_of
from minimizer.engine.localize.further_faults import Unreduced
from minimizer.engine.localize.localize import Localized
from minimizer.engine.program.regions import Region
from minimizer.report.culprit import Culprit
from minimizer.report.instances import Instances

NO_TIME = "fails by itself too, perhaps for the same reason; there was no time to reduce it"
OTHER_ROOT = "fails by itself too; --target reduces it first"


def culprits(located: Localized, culprit: Culprit) -> tuple[Culprit, ...]:
    """A culprit, and one entry for each family of other regions that fail in isolation and differ only in their place.

    Regions equal to the culprit's own are its ``instances``.
    """
    families: dict[tuple[str, str, int], list[Region]] = {}
    for root in located.roots:
        families.setdefault((pattern_of(root.path), root.module_class, root.size), []).append(root)
    right = [layer.path for layer in located.layers if layer.verdict == "good"]
    first, entries = culprit, list[Culprit]()
    for (pattern, *_), roots in families.items():
        # A module may span several regions, some of them right.
        wrong = dict.fromkeys(root.path for root in roots)
        known = Instances(
            wrong=list(wrong),
            right=[path for path in dict.fromkeys(right) if pattern_of(path) == pattern and path not in wrong],
            compared="modules",
        )
        is_set = len(known.wrong) > 1 and "" not in known.wrong
        if any(_holds(root, culprit) for root in roots):
            first = first.model_copy(update={"instances": known}) if is_set else first
        else:
            entries.append(
                Culprit(
                    module=roots[0].path,
                    module_class=roots[0].module_class,
                    what=OTHER_ROOT,
                    instances=known if is_set else None,
                    further=True,
                )
            )
    return first, *entries


def _holds(root: Region, culprit: Culprit) -> bool:
    return culprit.module == root.path or culprit.module.startswith(f"{root.path}.") or not root.path


def listed_with_the_first(known: Sequence[Culprit], region: Region) -> tuple[Culprit, ...]:
    """Move a region with the fault of the first culprit from the unexplained failing regions to that culprit's
    instances.
    """
    (first, *rest), left = known, list[Culprit]()
    for culprit in rest:
        holders = culprit.instances.wrong if culprit.instances is not None else [culprit.module]
        others = [path for path in holders if not path or not f"{region.path}.".startswith(f"{path}.")]
        if culprit.what != OTHER_ROOT or len(others) == len(holders):
            left.append(culprit)
            continue
        first = _with_instance(first, region.path)
        if others:
            still = Instances(wrong=others, compared="modules") if others[1:] else None
            left.append(culprit.model_copy(update={"module": others[0], "instances": still}))
    return first, *left


def _with_instance(culprit: Culprit, path: str) -> Culprit:
    known = culprit.instances or Instances(wrong=[culprit.module], compared="operators")
    if path not in known.wrong and known.compared != "calls":
        known = known.model_copy(update={"wrong": [*known.wrong, path]})
    return culprit.model_copy(update={"instances": known})


def named(known: Sequence[Culprit], other: Unreduced) -> tuple[Culprit, ...]:
    """Culprits and an unreduced one, named by its module, and by its node if only one is left.

    An entry that already names the module stays: it may represent equal modules too.
    """
    culprit = culprit_of(other.program, (), None, other.window)
    changes: dict[str, object] = {"further": True, "what": NO_TIME}
    if len(culprit.nodes) > 1:
        changes |= {"nodes": [], "ops": []}
    culprit = culprit.model_copy(update=changes)
    return tuple(known) if any(is_holder(one, culprit) for one in known) else (*known, culprit)


def is_holder(known: Culprit, culprit: Culprit) -> bool:
    """Whether ``known`` names only a failing module, without nodes or operators, that contains this culprit."""
    is_module = bool(known.module) and not known.nodes and not known.ops
    return is_module and f"{culprit.module}.".startswith(f"{known.module}.")
