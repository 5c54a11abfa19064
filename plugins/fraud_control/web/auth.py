"""Authorises users by our role bindings. A person is logged in; a program has a token of a person.

Airflow's own roles have no effect here, because a higher role there grants rights outside of the control plane.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request

from fraud_control.composition import ControlPlane
from fraud_control.domain.errors import Invalid
from fraud_control.domain.roles import Actor, Role
from fraud_control.service.bindings import check_name
from fraud_control.service.program_tokens import TokenInvalid
from fraud_control.web.load.rates import Throttle
from fraud_control.web.login.logins import ReadLogin
from fraud_control.web.problems import WebError
from fraud_ops.account import Account
from fraud_ops.paths import FORWARDED_HOST
from fraud_ops.token_secrets import secret_in

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


async def admit(request: Request, least: Role | None, control_plane: FastAPI | None = None) -> None:
    """Admit a request, or raise a WebError: 401 without a login, 403 for a low role or a foreign page, 429.

    `control_plane` is the application that knows the roles; None stands for the application of the request.
    """
    application: FastAPI = control_plane or request.app
    secret = secret_in(request.headers.get("authorization"))
    user, role, program = await (_person(request, application) if secret is None else _program(application, secret))
    plane: ControlPlane = application.state.service()
    throttle: Throttle = application.state.throttle
    writes = request.method not in _SAFE
    await throttle.count(user, plane.settings.rates, makes_changes=makes_changes(role), writes=writes)
    if least is not None and (role is None or not role.includes(least)):
        raise WebError(403, f"this needs the role {least}; {_yours(role)}")
    request.state.fraud_user, request.state.fraud_role, request.state.fraud_program = user, role, program


def makes_changes(role: Role | None) -> bool:
    """Whether a role permits changes of rules."""
    return role is not None and role.includes(Role.ANALYST)


async def _person(request: Request, application: FastAPI) -> tuple[str, Role | None, None]:
    """The user who is logged in, and the user's role."""
    read_login: ReadLogin = application.state.read_login
    ticket = await read_login(request)
    if ticket.by_browser:
        _check_origin(request)
    user = await _user(application, ticket.account)
    return user, await _role(application, user), None


async def _program(application: FastAPI, secret: str) -> tuple[str, Role, str | None]:
    """The owner of a token, the role, and the name of the program. No browser sends the token by itself, so the origin
    does not matter.
    """
    plane: ControlPlane = application.state.service()
    try:
        with suppress(KeyError):
            return _parts(plane.programs.cached(secret))
        return _parts(await asyncio.to_thread(plane.programs.actor, secret))
    except TokenInvalid as error:
        raise WebError(401, str(error)) from error


def _parts(actor: Actor) -> tuple[str, Role, str | None]:
    return actor.user, actor.role, actor.program


async def _user(application: FastAPI, account: Account) -> str:
    """The user of an account. Raises WebError (401) for a name that the store cannot keep."""
    plane: ControlPlane = application.state.service()
    with suppress(KeyError):
        return plane.users.cached(account)
    try:
        check_name(account.name)
    except Invalid as error:
        raise WebError(401, "your login name must have 1 to 256 characters on one line") from error
    return await asyncio.to_thread(plane.users.get, account)


async def _role(application: FastAPI, user: str) -> Role | None:
    plane: ControlPlane = application.state.service()
    with suppress(KeyError):
        return plane.roles.cached(user)
    return await asyncio.to_thread(plane.roles.get, user)


async def _actor(request: Request) -> Actor:
    return Actor(request.state.fraud_user, request.state.fraud_role, request.state.fraud_program)


async def _user_of(request: Request) -> tuple[str, Role | None]:
    return request.state.fraud_user, request.state.fraud_role


CurrentActor = Annotated[Actor, Depends(_actor)]
"""The user of the request, who has a role."""

CurrentUser = Annotated[tuple[str, Role | None], Depends(_user_of)]
"""The user of the request, who may lack a role."""


def _check_origin(request: Request) -> None:
    """Raise a WebError for a change from another site's page, because a browser sends its cookie from any page."""
    if request.method in _SAFE:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, "same-origin") or (site is None and origin is None):
        raise WebError(403, "only pages of this server may send changes", "cross-origin")
    if origin is not None and urlsplit(origin).netloc not in _own_hosts(request):
        raise WebError(403, "only pages of this server may send changes", "cross-origin")


def _own_hosts(request: Request) -> set[str]:
    """The host names of this server for a browser: its own, and those of Airflow, which the plugin forwards."""
    forwarded = request.headers.get(FORWARDED_HOST, "").split(",")
    return {name.strip() for name in (request.headers.get("host", ""), *forwarded)} - {""}


def _yours(role: Role | None) -> str:
    return "you have no role: ask an admin for one" if role is None else f"your role is {role}"
