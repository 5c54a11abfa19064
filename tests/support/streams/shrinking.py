"""Makes a failing document small: fewer steps, fewer cuts, plainer rules and transactions, while it still fails.

Delta debugging (Zeller 1999) on the document itself: some hundred evaluations, where shrinking what the document was
drawn from takes thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Document = dict[str, Any]
OPTIONAL = {
    "rule": ["filter", "cooldownSeconds"],
    "tx": ["points", "beneficiaryId", "paymentType", "paymentAmount"],
}


def smallest(document: Document, fails: Callable[[Document], bool]) -> Document:
    """A document that still fails and none of whose simplifications does; the one given must fail."""
    while True:
        simpler = next((candidate for candidate in _simplifications(document) if fails(candidate)), None)
        if simpler is None:
            return document
        document = simpler


def _simplifications(document: Document) -> Iterator[Document]:
    """Every document one move away, the boldest moves first."""
    count = len(document["steps"])
    size = max(count // 2, 1)
    while size:
        for start in range(0, count, size):
            yield _without_steps(document, range(start, min(start + size, count)))
        size //= 2
    for index in range(len(document.get("batches", []))):
        simpler = deepcopy(document)
        del simpler["batches"][index]
        yield simpler
    if document.get("keyGroups", 1) > 1:
        yield {**document, "keyGroups": 1}
    for index, step in enumerate(document["steps"]):
        for kind, names in OPTIONAL.items():
            for name in names:
                if name in step.get(kind, {}):
                    simpler = deepcopy(document)
                    del simpler["steps"][index][kind][name]
                    yield simpler


def _without_steps(document: Document, indices: range) -> Document:
    """The document without some steps, every cut and pin where it was between those that are left."""
    steps = document["steps"]
    smaller = {**deepcopy(document), "steps": [step for index, step in enumerate(steps) if index not in indices]}
    offsets: dict[str, int] = {}
    version = 0
    for index, step in enumerate(steps):
        if "rule" in step:
            for recorded, batch in zip(document.get("batches", []), smaller.get("batches", []), strict=True):
                batch["pin"] -= index in indices and version < recorded["pin"]
            version += 1
            continue
        partition = str(step.get("partition", 0))
        offset = offsets[partition] = offsets.get(partition, -1) + 1
        for recorded, batch in zip(document.get("batches", []), smaller.get("batches", []), strict=True):
            ends, end = batch["offsets"]["transactions"], recorded["offsets"]["transactions"].get(partition, 0)
            if index in indices and offset < end:
                ends[partition] -= 1
    return smaller
