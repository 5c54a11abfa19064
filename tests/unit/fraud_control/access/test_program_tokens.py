"""Tokens for programs: a program acts as its owner, with at most the role of the token."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import text

from fraud_control.domain.errors import NotFound, RefusalCause, RequestRefused
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import Actor, Role, lesser
from fraud_control.service.program_tokens import CACHED_S, MOST_OF_OWNER, ProgramLogins, TokenInvalid
from fraud_control.ttl_cache import CachedByKey
from fraud_ops.token_secrets import digest_of, secret_in
from fraud_rules.model.day import DAY_MS
from tests.support.control_plane.scene import ABE, ADA, ANN, PAT, PIA, REASON, VIC, Scene, rule_input


@dataclass
class Steady:
    """A steady clock in seconds."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def logins(scene: Scene, clock: Steady | None = None) -> ProgramLogins:
    """The logins of a new process."""
    return ProgramLogins(scene.store, CachedByKey(scene.store.role_of, 1.0, 10), clock or Steady())


def token(scene: Scene, who: Actor, role: Role, name: str = "ci", days: int = 30) -> str:
    """The secret of a new token of a user with this role in the store."""
    scene.service.bind(ADA, who.user, who.role)
    return scene.service.create_token(who, name, role, days)[1]


def refused(scene: Scene, secret: str, message: str) -> None:
    with pytest.raises(TokenInvalid, match=message):
        logins(scene).actor(secret)


UNKNOWN = "fraud_" + "a" * 43


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Role.ADMIN, Role.VIEWER, Role.VIEWER),
        (Role.APPROVER, Role.ANALYST, Role.ANALYST),
        (Role.APPROVER, Role.AUDITOR, Role.AUDITOR),
        (Role.ANALYST, Role.AUDITOR, Role.VIEWER),  # an analyst is no auditor
        *((role, role, role) for role in Role),
    ],
)
def test_the_lesser_of_two_roles_is_included_in_both(one: Role, other: Role, expected: Role) -> None:
    assert lesser(one, other) is lesser(other, one) is expected


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        ("Bearer fraud_x", "fraud_x"),
        ("bearer  fraud_x ", "fraud_x"),
        ("Bearer eyJhbGciOi", None),
        ("Basic fraud_x", None),
        ("fraud_x", None),
        ("", None),
        (None, None),
    ],
)
def test_only_a_bearer_token_with_the_prefix_is_of_a_program(header: str | None, secret: str | None) -> None:
    assert secret_in(header) == secret


def test_a_program_acts_as_its_owner_with_the_role_of_the_token(scene: Scene) -> None:
    secret = token(scene, PAT, Role.ANALYST)
    assert logins(scene).actor(secret) == Actor("pat", Role.ANALYST, "ci")


def test_the_store_has_only_the_digest_of_a_secret(scene: Scene, tmp_path: Path) -> None:
    secret = token(scene, ANN, Role.ANALYST)
    assert re.fullmatch(r"fraud_[A-Za-z0-9_-]{43}", secret)
    with scene.database.reading() as session:
        assert session.scalar(text("SELECT digest FROM program_tokens")) == digest_of(secret)
    files = [path for path in tmp_path.iterdir() if path.name.startswith("control.db")]
    assert files and all(secret.encode() not in path.read_bytes() for path in files)
    assert "secret" not in scene.service.tokens(ANN)[0].model_dump()


def test_a_user_sees_and_revokes_own_tokens_and_an_admin_all(scene: Scene) -> None:
    secrets = {who.user: token(scene, who, Role.ANALYST) for who in (ANN, PAT)}
    [of_ann] = scene.service.tokens(ANN)
    assert (of_ann.owner, of_ann.name, of_ann.role) == ("ann", "ci", Role.ANALYST)
    assert of_ann.expires_at_ms == of_ann.created_at_ms + 30 * DAY_MS == scene.clock() + 30 * DAY_MS
    assert [each.owner for each in scene.service.tokens(ADA)] == ["ann", "pat"]
    with pytest.raises(NotFound):
        scene.service.revoke_token(PAT, of_ann.id)
    scene.service.revoke_token(ANN, of_ann.id)
    refused(scene, secrets["ann"], "unknown or revoked: its owner creates another with `fraud tokens create`")
    scene.service.revoke_token(ADA, scene.service.tokens(PAT)[0].id)
    assert scene.service.tokens(ADA) == ()


def test_a_token_has_at_most_the_role_of_its_owner(scene: Scene) -> None:
    for who, role in ((VIC, Role.AUDITOR), (ANN, Role.AUDITOR), (ANN, Role.APPROVER), (PAT, Role.ADMIN)):
        with pytest.raises(RequestRefused, match="at most your role") as found:
            token(scene, who, role)
        assert found.value.forbidden
    token(scene, VIC, Role.VIEWER)


def test_a_lower_role_of_the_owner_counts_for_older_tokens(scene: Scene) -> None:
    secret = token(scene, PAT, Role.APPROVER)
    scene.service.bind(ADA, "pat", Role.AUDITOR)
    assert logins(scene).actor(secret).role is Role.AUDITOR
    scene.service.unbind(ADA, "pat")
    refused(scene, secret, "pat, the owner of the token ci, has no role: ask an admin for one")


def test_a_token_expires_also_while_it_is_cached(scene: Scene) -> None:
    secret = token(scene, ANN, Role.ANALYST, days=1)
    here = logins(scene)
    scene.clock.now_ms += DAY_MS - 1
    assert here.actor(secret).user == "ann"
    scene.clock.now_ms += 1
    with pytest.raises(TokenInvalid, match=r"ci expired at 2023-11-15 22:13:20 UTC: its owner creates another"):
        here.cached(secret)
    assert len(scene.service.tokens(ANN)) == 1, "its owner still sees it"
    scene.clock.now_ms += 31 * DAY_MS
    token(scene, ANN, Role.ANALYST, "next")
    assert [each.name for each in scene.service.tokens(ANN)] == ["next"]


@pytest.mark.parametrize("secret", ["fraud_", "fraud_x", UNKNOWN, UNKNOWN + "x", "fraud_" + "\u00e9" * 43])
def test_an_unknown_token_is_no_login(scene: Scene, secret: str) -> None:
    refused(scene, secret, "unknown or revoked")


def test_a_revoked_token_ends_here_at_once_and_elsewhere_with_the_cache(scene: Scene) -> None:
    secret = token(scene, ANN, Role.ANALYST)
    clock = Steady()
    here, elsewhere = logins(scene, clock), logins(scene, clock)
    with pytest.raises(KeyError):
        elsewhere.cached(secret)
    for each in (here, elsewhere):
        each.actor(secret)
    scene.service.revoke_token(ANN, scene.service.tokens(ANN)[0].id)
    here.forget()
    with pytest.raises(TokenInvalid):
        here.actor(secret)
    clock.now_s += CACHED_S - 0.1
    assert elsewhere.actor(secret).user == "ann"
    clock.now_s += 0.2
    with pytest.raises(TokenInvalid):
        elsewhere.actor(secret)


def test_a_program_cannot_create_or_revoke_tokens(scene: Scene) -> None:
    program = logins(scene).actor(token(scene, ADA, Role.ADMIN))
    [own] = scene.service.tokens(program)
    for change in (
        lambda: scene.service.create_token(program, "other", Role.VIEWER, 1),
        lambda: scene.service.revoke_token(program, own.id),
    ):
        with pytest.raises(RequestRefused, match="log in as a person") as found:
            change()
        assert (found.value.forbidden, found.value.cause) == (True, RefusalCause.PERSON_ONLY)


def test_names_and_numbers_of_tokens_are_bounded(scene: Scene) -> None:
    token(scene, ANN, Role.VIEWER)
    with pytest.raises(RequestRefused, match="you have a token ci: revoke it first"):
        token(scene, ANN, Role.VIEWER)
    token(scene, ABE, Role.VIEWER)
    for number in range(1, MOST_OF_OWNER):
        token(scene, ANN, Role.VIEWER, f"ci-{number}")
    with pytest.raises(RequestRefused, match="20 tokens, the most allowed"):
        token(scene, ANN, Role.VIEWER, "more")


def test_a_program_cannot_approve_the_change_of_its_owner(scene: Scene) -> None:
    service = scene.another(four_eyes=True)
    program = logins(scene).actor(token(scene, PAT, Role.APPROVER))
    service.create(PAT, rule_input(ruleId=1))
    service.change_state(PAT, 1, 1, StateName.SHADOW)
    by_person = service.change_state(PAT, 1, 2, StateName.ACTIVE, comment=REASON).row.pending
    assert by_person is not None
    with pytest.raises(RequestRefused, match="second person"):
        service.decide(program, by_person.id, approve=True)
    service.decide(PIA, by_person.id, approve=True)
    assert service.rule(1).row.state is StateName.ACTIVE


def test_a_person_cannot_approve_the_change_of_the_own_program(scene: Scene) -> None:
    service = scene.another(four_eyes=True)
    program = logins(scene).actor(token(scene, PAT, Role.ANALYST))
    service.create(program, rule_input(ruleId=1))
    service.change_state(program, 1, 1, StateName.SHADOW)
    by_program = service.change_state(program, 1, 2, StateName.ACTIVE, comment=REASON).row.pending
    assert by_program is not None and by_program.contributors == ["pat"]
    with pytest.raises(RequestRefused, match="second person"):
        service.decide(PAT, by_program.id, approve=True)
    service.decide(PIA, by_program.id, approve=True)


def test_the_audit_log_names_tokens_and_programs(scene: Scene) -> None:
    program = logins(scene).actor(token(scene, ANN, Role.ANALYST))
    scene.service.create(program, rule_input())
    scene.service.create(ANN, rule_input(ruleId=2))
    scene.service.revoke_token(ADA, scene.service.tokens(ANN)[0].id)
    revoked, by_person, by_program, created, _ = scene.service.audit_rows().items
    rows = [(row.who, row.program, row.action, row.subject) for row in (created, by_program, by_person, revoked)]
    assert rows == [
        ("ann", None, "token.create", "token ci"),
        ("ann", "ci", "rule.create", "rule 1"),
        ("ann", None, "rule.create", "rule 2"),
        ("ada", None, "token.revoke", "token ci"),
    ]
    assert created.after == revoked.before
    assert isinstance(created.after, dict)
    assert (created.after["owner"], created.after["role"]) == ("ann", "analyst")
    assert scene.service.verify_audit().whole


@pytest.mark.parametrize("change", ["program = NULL WHERE program = 'ci'", "program = 'ci' WHERE action = 'role.bind'"])
def test_the_chain_covers_the_program(scene: Scene, change: str) -> None:
    scene.service.create(logins(scene).actor(token(scene, ANN, Role.ANALYST)), rule_input())
    assert scene.service.verify_audit().whole
    with scene.database.writing() as session:
        session.execute(text("DROP TRIGGER audit_no_update"))
        session.execute(text(f"UPDATE audit SET {change}"))
    assert not scene.service.verify_audit().whole
