"""Users are accounts by issuer and id. Names may change, and other accounts may reuse them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fraud_control.domain.errors import RequestRefused
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import Actor, Role
from fraud_control.store.accounts import user_of
from fraud_ops.account import Account
from tests.support.control_plane.scene import ADA, REASON, Scene, rule_input

PAT = Account("FabAuthManager", "17", "pat")


def user(scene: Scene, account: Account) -> str:
    return user_of(scene.database, account, scene.clock)


def test_the_first_account_of_a_name_is_the_user_of_this_name(scene: Scene) -> None:
    """Roles and rows that name a user are older than the account."""
    scene.service.bind(ADA, "pat", Role.APPROVER)
    assert user(scene, PAT) == "pat"
    assert scene.service.role_of(user(scene, PAT)) is Role.APPROVER


@pytest.mark.parametrize("other", [replace(PAT, id="18"), replace(PAT, issuer="KeycloakAuthManager")])
def test_an_account_that_reuses_a_name_inherits_nothing(scene: Scene, other: Account) -> None:
    scene.service.bind(ADA, "pat", Role.APPROVER)
    assert user(scene, PAT) == "pat"
    assert user(scene, other) == f"pat ({other.key[:8]})"
    assert scene.service.role_of(user(scene, other)) is None
    assert user(scene, PAT) == "pat"


def test_a_chosen_name_does_not_lead_to_the_user_of_another_account(scene: Scene) -> None:
    other = replace(PAT, id="18")
    names = [PAT, Account("x", "1", f"pat ({other.key[:8]})"), other]
    assert len({user(scene, each) for each in names}) == 3
    renamed = Account("x", "1", "pat")
    assert user(scene, renamed) == f"pat ({other.key[:8]})", "a name that was taken over stays with its account"


def test_a_person_under_another_name_cannot_approve_the_own_request(scene: Scene) -> None:
    service = scene.another(four_eyes=True)
    before = Actor(user(scene, PAT), Role.APPROVER)
    service.create(before, rule_input(ruleId=1))
    service.change_state(before, 1, 1, StateName.SHADOW)
    request = service.change_state(before, 1, 2, StateName.ACTIVE, comment=REASON).row.pending
    assert request is not None
    after = Actor(user(scene, replace(PAT, name="patricia")), Role.APPROVER)
    assert after == before
    with pytest.raises(RequestRefused):
        service.decide(after, request.id, approve=True)
    somebody = Actor(user(scene, Account("FabAuthManager", "20", "patricia")), Role.APPROVER)
    assert somebody.user == "patricia", "no other account has this name"
