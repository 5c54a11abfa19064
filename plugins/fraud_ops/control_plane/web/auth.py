"""Authenticates users by Airflow's login and authorises them by our role bindings.

Airflow's own roles have no effect here, because a higher role there grants rights outside of the control plane.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Final
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.configuration import conf
from fastapi import Depends, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from fraud_ops.control_plane.composition import ControlPlane
from fraud_ops.control_plane.domain.errors import Invalid
from fraud_ops.control_plane.domain.roles import Actor, Role
from fraud_ops.control_plane.service.bindings import check_name
from fraud_ops.control_plane.store.accounts import Account
from fraud_ops.control_plane.web.load.lanes import LaneName, Lanes
from fraud_ops.control_plane.web.load.rates import CountedSession, Throttle
from fraud_ops.control_plane.web.problems import WebError

__all__ = ["COUNTED", "CurrentActor", "CurrentUser", "admit", "count", "known_session", "makes_changes"]

COUNTED: Final = "fraud_rules.counted"
"""The member of a request's scope which says that the request has counted."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


async def admit(request: Request, least: Role | None, control_plane: FastAPI | None = None) -> None:
    """Admit a request, or raise a WebError: 401 without a login, 403 for a low role or a foreign page, 429.

    `control_plane` is the application that knows the roles; None stands for the application of the request.
    """
    application: FastAPI = control_plane or request.app
    throttle: Throttle = application.state.throttle
    session = known_session(application, request)
    if session is not None and COUNTED not in request.scope:
        # Before the authentication, which reads Airflow's database in the event loop.
        await count(application, request.method, session)
    account = await _account(request)
    _check_origin(request)
    user = await _user(application, account)
    role = await _role(application, user)
    now = CountedSession(user, makes_changes=makes_changes(role))
    if session != now:
        throttle.sessions.learn(_credential(request), now)
    if session is None or session.user != user:
        await count(application, request.method, now)
    if least is not None and (role is None or not role.includes(least)):
        raise WebError(403, f"this needs the role {least}; {_yours(role)}")
    request.state.fraud_user, request.state.fraud_role = user, role


def makes_changes(role: Role | None) -> bool:
    """Whether a role permits changes of rules."""
    return role is not None and role.includes(Role.ANALYST)


async def _role(application: FastAPI, user: str) -> Role | None:
    plane: ControlPlane = application.state.service()
    with suppress(KeyError):
        return plane.roles.cached(user)
    lanes: Lanes = application.state.lanes
    return await lanes[LaneName.ROLES].run(user, partial(plane.roles.role_of, user))


def known_session(control_plane: FastAPI, connection: HTTPConnection) -> CountedSession | None:
    """The session of a request, if an earlier request has authenticated it."""
    throttle: Throttle = control_plane.state.throttle
    return throttle.sessions.session_of(_credential(connection))


async def count(control_plane: FastAPI, method: str, session: CountedSession) -> None:
    """Count a request. Raises WebError 429 above the limits, and Unavailable until the control plane has started."""
    plane: ControlPlane = control_plane.state.service()
    throttle: Throttle = control_plane.state.throttle
    await throttle.count(session, plane.settings.rates, writes=method not in _SAFE)


def _credential(request: HTTPConnection) -> str:
    """The text that identifies a session: a token in the header, which wins over the cookie."""
    return request.headers.get("authorization") or request.cookies.get(COOKIE_NAME_JWT_TOKEN) or ""


async def _actor(request: Request) -> Actor:
    return Actor(request.state.fraud_user, request.state.fraud_role)


async def _user_of(request: Request) -> tuple[str, Role | None]:
    return request.state.fraud_user, request.state.fraud_role


CurrentActor = Annotated[Actor, Depends(_actor)]
"""The user of the request, who has a role."""

CurrentUser = Annotated[tuple[str, Role | None], Depends(_user_of)]
"""The user of the request, who may lack a role."""


async def _account(request: Request) -> Account:
    try:
        found = await get_user(request, None, await bearer_scheme(request))
    except HTTPException as error:
        raise WebError(401, f"{error.detail}; log in to Airflow") from error
    manager = type(get_auth_manager())
    return Account(f"{manager.__module__}.{manager.__qualname__}", str(found.get_id()), str(found.get_name()))


async def _user(application: FastAPI, account: Account) -> str:
    """The user of an account. Raises WebError (401) for a name that the store cannot keep."""
    plane: ControlPlane = application.state.service()
    with suppress(KeyError):
        return plane.users.cached(account)
    try:
        check_name(account.name)
    except Invalid as error:
        raise WebError(401, "your login name must have 1 to 256 characters on one line") from error
    lanes: Lanes = application.state.lanes
    return await lanes[LaneName.ROLES].run(account.name, partial(plane.users.get, account))


def _check_origin(request: Request) -> None:
    """Raise a WebError for a change from another site's page, because a browser sends our cookie from any page."""
    # A bearer token in the header proves that no browser sent the request on its own. Other schemes prove nothing:
    # behind a proxy with a Basic login, a browser adds that login to the requests of any page.
    if request.method in _SAFE or request.headers.get("authorization", "").lower().startswith("bearer "):
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, "same-origin") or (site is None and origin is None):
        raise WebError(403, "only pages of this server may send changes", "cross-origin")
    if origin is not None and urlsplit(origin).netloc not in _own(request):
        raise WebError(403, "only pages of this server may send changes", "cross-origin")


def _own(request: Request) -> set[str]:
    """The host names of this server: the one in the request, and the configured one."""
    configured = urlsplit(str(conf.get("api", "base_url", fallback=""))).netloc
    return {name for name in (request.headers.get("host"), configured) if name}


def _yours(role: Role | None) -> str:
    return "you have no role: ask an admin for one" if role is None else f"your role is {role}"
