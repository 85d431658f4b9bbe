"""GPUs of each pool: what there is, and what is asked for before, during and after the rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tokenworks.review.effects import restarting
from tokenworks.review.objects import Difference
from tokenworks.review.snapshot import Pool, Snapshot
from tokenworks.review.workloads import Part, parts_of
from tokenworks.spec.stack import Manifest


@dataclass(frozen=True)
class Need:
    """GPUs of one pool."""

    pool: str
    gpu: str
    had: int
    """That the pool has at most, before."""
    has: int
    """And after."""
    before: int
    during: int
    """Asked for at most while pods of both states run."""
    after: int

    @property
    def short(self) -> int:
        """GPUs that the rollout asks for and the pool has not."""
        return max(0, self.during - self.has)

    @property
    def changes(self) -> bool:
        """Whether any number moves, or something waits."""
        return self.had != self.has or len({self.before, self.during, self.after}) > 1


def needs(
    before: Snapshot | None, after: Snapshot | None, found: Sequence[Difference]
) -> tuple[Need, ...]:
    """Every pool of either state, by name."""
    old, new = _pools(before), _pools(after)
    asked = _asked(before.manifests if before else (), old)
    wanted = _asked(after.manifests if after else (), new)
    during = asked.copy()
    for difference in found:
        during.update(_more(difference, old, new))
    return tuple(
        Need(
            name,
            (new.get(name) or old[name]).gpu,
            old[name].gpus if name in old else 0,
            new[name].gpus if name in new else 0,
            asked[name],
            max(during[name], wanted[name]),
            wanted[name],
        )
        for name in sorted({*old, *new})
    )


def _pools(snapshot: Snapshot | None) -> Mapping[str, Pool]:
    return snapshot.pools if snapshot else {}


def _asked(objects: Iterable[Manifest], pools: Mapping[str, Pool]) -> Counter[str]:
    found: Counter[str] = Counter()
    for manifest in objects:
        found.update(_by_pool(parts_of(manifest, pools)))
    return found


def _by_pool(parts: Iterable[Part]) -> Counter[str]:
    found: Counter[str] = Counter()
    for part in parts:
        if part.pool is not None:
            found[part.pool] += part.all_gpus
    return found


def _more(difference: Difference, old: Mapping[str, Pool], new: Mapping[str, Pool]) -> Counter[str]:
    """GPUs beyond those of the state before, while both states run.

    What is added runs beside what is removed; what is rolled out has at most its larger size and
    its surge.
    """
    before = parts_of(difference.before, old) if difference.before else ()
    after = parts_of(difference.after, new) if difference.after else ()
    was, will = _by_pool(before), _by_pool(after)
    surge: Counter[str] = Counter()
    if difference.before and restarting(difference):
        for part in after:
            if part.pool is not None:
                surge[part.pool] += part.surge * part.gpus
    return Counter(
        {name: max(was[name], will[name]) - was[name] + surge[name] for name in {*was, *will}}
    )
