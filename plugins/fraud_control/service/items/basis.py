"""The basis of a request for approval: the revisions of its rule and of all lists and maps that the requested rule
names.

An approval covers this content and no other. A change of any part withdraws the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from fraud_control.domain.canonical import canonical, decoded
from fraud_control.domain.errors import Conflict
from fraud_control.domain.item import RULE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.uses import named_collections
from fraud_control.service.items.saving import withdraw
from fraud_control.store.models import ApprovalRow, ItemHead

Basis = Mapping[str, int]
"""Revisions by part: `rule 7`, `list mules` or `map limits`."""


def current_basis(work: UnitOfWork, request: ApprovalRow, head: ItemHead) -> Basis:
    """The present revisions of the parts of a request about this item; 0 for a missing list or map."""
    named = named_collections(work.session, work.reader, request.document)
    revisions = {str(item): 0 if each is None else each.revision for item, each in named.items()}
    return {str(head): head.revision, **revisions}


def encode_basis(basis: Basis) -> str:
    """Encode a basis for the column `basis`."""
    return canonical(dict(basis)).decode()


def check_basis(work: UnitOfWork, request: ApprovalRow, head: ItemHead, shown: Basis | None) -> None:
    """Raise Conflict if the content is not what the user requested, or not what the approver saw (`shown`)."""
    if request.basis is None:
        raise Conflict("an earlier release saved this request: reject it, and request the change again")
    basis, now = decoded(request.basis), current_basis(work, request, head)
    for known in (basis, basis if shown is None else dict(shown)):
        changed = sorted(part for part in {*known, *now} if known.get(part) != now.get(part))
        if changed:
            raise Conflict(f"changed since: {', '.join(changed)}; load the request again")


def collection_changed(work: UnitOfWork, head: ItemHead, who: str, *, keeps_requests: bool) -> None:
    """Withdraw the open requests about rules that name a changed list or map. With `keeps_requests`, which is for the
    expiry of values, they continue with the new revision.
    """
    part = str(head)
    if work.requested_parts is None:
        work.requested_parts = frozenset(each for request in _open_requests(work) for each in _basis_of(request))
    if part not in work.requested_parts:
        return
    for request in _open_requests(work):
        basis = _basis_of(request)
        if part in basis and keeps_requests:
            request.basis = encode_basis({**basis, part: head.revision})
        elif part in basis:
            withdraw(work, work.head(request.item), who, f"the {head} has changed")


def _open_requests(work: UnitOfWork) -> Sequence[ApprovalRow]:
    open_ones = select(ApprovalRow).where(ApprovalRow.decision.is_(None), ApprovalRow.kind == RULE)
    return work.session.scalars(open_ones).all()


def _basis_of(request: ApprovalRow) -> Mapping[str, int]:
    return {} if request.basis is None else decoded(request.basis)
