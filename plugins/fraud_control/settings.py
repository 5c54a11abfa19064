"""The control plane's settings: `config/control-plane.yaml`. Environment variables override the file.

FRAUD_CONTROL_FOUR_EYES overrides `four_eyes`, FRAUD_CONTROL_FLOOD_ALERTS_PER_MINUTE overrides
`flood.alerts_per_minute`, and so on. `bindings` and `receivers` have no variable, but the user
in FRAUD_ADMIN_USER is an admin unless `bindings` says otherwise. One error reports all wrong keys and values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from fraud_control.domain.roles import Role
from fraud_ops.notifications import ReceiverKind
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings_file import NAME, NAME_IS, bounded, matching, read_settings
from fraud_rules.errors import ConfigError
from fraud_rules.kafka.transactional_ids import CONTROL_PLANE_NAME
from fraud_rules.model.limits import constant
from fraud_rules.runtime.safe_text import describe_value
from fraud_rules.runtime.yaml_file import read_yaml

_E = TypeVar("_E", bound=StrEnum)

ENV_PREFIX: Final = "FRAUD_CONTROL_"
ADMIN_USER: Final = "FRAUD_ADMIN_USER"
"""The variable with the name of the first admin."""

FILE: Final = "control-plane.yaml"

_DATABASE: Final = re.compile(r"(sqlite:///|postgresql(\+psycopg2)?://)[^\s\x00-\x1f]{1,1000}", re.ASCII)
_KEYS: Final = re.compile(r"\S{32,200}( \S{32,200})?", re.ASCII)
_URL: Final = re.compile(r"https?://[^\s\x00-\x1f]{1,1000}", re.ASCII)
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)
_CLAIM: Final = re.compile(r"[\x21-\x7e]{1,1000}", re.ASCII)
_FILE: Final = re.compile(r"[^\x00-\x1f]{1,1000}", re.ASCII)
_RECEIVER: Final = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_MOST_RECEIVERS: Final = 20
_USER: Final = re.compile(r"(?!log:|system:)[^\x00-\x1f\x7f]{1,256}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds of one request, all inclusive. `list_bytes` is the largest size of the values of a list's change,
    `label_bytes` that of a file of labels, `page` the largest number of items in a page, `outbox` the largest number of
    changes that may wait for the rule log. Alerts leave the alert index after `alert_days`. `export_rows` is the
    largest number of alerts in an exported file.
    """

    comment_chars: int = constant(2_000)
    import_bytes: int = constant(1_048_576)
    list_bytes: int = constant(16_777_216)
    label_bytes: int = constant(4_194_304)
    import_rules: int = constant(2_000)
    rules: int = bounded(10_000, 1, 1_000_000)
    page: int = constant(1_000)
    outbox: int = constant(100_000)
    snooze_days: int = constant(30)
    alert_days: int = bounded(30, 1, 3_650)
    export_rows: int = constant(100_000)
    saved_searches: int = constant(50)


@dataclass(frozen=True, slots=True)
class Flood:
    """The alert rate above which a rule floods, and whether the control plane then moves the rule to SHADOW."""

    alerts_per_minute: int = bounded(1_000, 1, 10_000_000)
    to_shadow: bool = False


@dataclass(frozen=True, slots=True)
class ResolveHours:
    """The hours from the first alert of a case within which it should be closed, by its severity. A case without a
    known severity has no such time.
    """

    critical: int = bounded(4, 1, 8_760)
    high: int = bounded(24, 1, 8_760)
    medium: int = bounded(72, 1, 8_760)
    low: int = bounded(168, 1, 8_760)


@dataclass(frozen=True, slots=True)
class Rates:
    """Rate limits of one user at one server. A burst may use the requests of five seconds at once.

    A request that changes something counts against both limits. Users who send requests at the same time share
    `server_requests_per_s` in equal parts. `streams` limits the event streams that are open at
    once (each open page has one), and `what_ifs` the what-ifs that run or wait.
    """

    requests_per_s: int = bounded(100, 1, 1_000_000)
    changes_per_s: int = bounded(50, 1, 1_000_000)
    server_requests_per_s: int = bounded(60, 1, 10_000_000)
    streams: int = bounded(6, 1, 250)
    what_ifs: int = constant(2)


@dataclass(frozen=True, slots=True)
class Notifications:
    """The largest number of alerts per minute that a subscription gets one by one. A summary has the rest."""

    alerts_per_minute: int = bounded(30, 1, 10_000)


@dataclass(frozen=True, slots=True)
class ProxyLogin:
    """The proxy that logs users in, if `header` is not empty: a header with a JSON Web Token, the address of the keys
    that sign it (a JSON Web Key Set), the token's issuer and audience, and the claim with the login name.
    """

    header: str = matching("", _HEADER, "the name of a header, such as X-Goog-IAP-JWT-Assertion")
    keys_url: str = matching("", _URL, "the address of a JSON Web Key Set")
    issuer: str = matching("", _CLAIM, "the issuer of the tokens")
    audience: str = matching("", _CLAIM, "the audience of the tokens")
    name: str = matching("email", _CLAIM, "the name of a claim")


@dataclass(frozen=True, slots=True)
class Retention:
    """The days after which closed cases and ended snoozes, and rows of the audit log, are removed; 0 keeps them.

    The evidence of alerts leaves the alert index after `bounds.alert_days`.
    """

    cases_days: int = bounded(0, 0, 36_500)
    audit_days: int = bounded(0, 0, 36_500)


_BOUNDS = Bounds()
_RETENTION = Retention()
_PROXY_LOGIN = ProxyLogin()
_RATES = Rates()
_FLOOD = Flood()
_RESOLVE_HOURS = ResolveHours()
_NOTIFICATIONS = Notifications()


@dataclass(frozen=True, slots=True)
class ControlPlaneSettings:
    """Validated settings. `database` is an SQLAlchemy URL (SQLite or Postgres). The URL may hold a password, so no
    `repr` shows it. If it is empty, the database is a SQLite file in the project's `var/`. `name` is the Kafka
    transactional id, which allows one writer at a time. `url` is the address of the pages' server for a browser, which
    messages name. `airflow_url` is the address of Airflow if users open the pages here, without its plugin in between.
    `ticket_key` has the keys that sign the logins of Airflow's plugin (see `TicketKeys`). `proof_key` is the file of
    the Ed25519 key that signs proofs.
    """

    name: str = matching(CONTROL_PLANE_NAME, NAME, NAME_IS)
    database: str = matching("", _DATABASE, "a SQLite or Postgres URL", secret=True)
    url: str = matching("", _URL, "an address such as https://airflow.example")
    airflow_url: str = matching("", _URL, "an address such as https://airflow.example")
    ticket_key: str = matching("", _KEYS, "one or two keys of at least 32 characters", secret=True)
    proof_key: str = matching("", _FILE, "the path of a file")
    four_eyes: bool = False
    bounds: Bounds = _BOUNDS
    retention: Retention = _RETENTION
    rates: Rates = _RATES
    flood: Flood = _FLOOD
    resolve_hours: ResolveHours = _RESOLVE_HOURS
    notifications: Notifications = _NOTIFICATIONS
    proxy_login: ProxyLogin = _PROXY_LOGIN
    bindings: Mapping[str, Role] = field(default_factory=dict)
    receivers: Mapping[str, ReceiverKind] = field(default_factory=dict)
    """The receivers of notifications, by name."""

    @classmethod
    def load(cls, project: Project, environ: Mapping[str, str] = os.environ) -> ControlPlaneSettings:
        """Load the settings of a project; environment variables override the file. Raises ConfigError with all faults
        of both.
        """
        path = project.config / FILE
        document = read_yaml(path) if path.exists() else {}
        return cls.parse({} if document is None else document, project.var, environ, str(path))

    @classmethod
    def parse(
        cls, document: object, var: Path, environ: Mapping[str, str], where: str = "settings"
    ) -> ControlPlaneSettings:
        """Build the settings from a decoded document. Errors name the document by `where`; the default database lies
        in `var`.
        """
        faults: list[str] = []
        values = read_settings(cls, document, environ, ENV_PREFIX, faults)
        if isinstance(document, Mapping):
            values["bindings"] = _bindings(document.get("bindings") or {}, faults)
            values["receivers"] = _receivers(document.get("receivers") or {}, faults)
        admin = environ.get(ADMIN_USER)
        if admin:
            values["bindings"] = {admin: Role.ADMIN, **values.get("bindings", {})}
        values.setdefault("database", f"sqlite:///{var / 'control-plane.db'}")
        if faults:
            raise ConfigError(f"{where}: " + "; ".join(faults))
        return cls(**values)


def _bindings(declared: object, faults: list[str]) -> Mapping[str, Role]:
    """Parse the mapping of users to roles; report its faults in `faults`."""
    if not isinstance(declared, Mapping):
        faults.append("bindings must map users to roles")
        return {}
    return _choices("bindings", declared, Role, _USER, "is not a user name", faults)


def _receivers(declared: object, faults: list[str]) -> Mapping[str, ReceiverKind]:
    """Parse the mapping of receivers to kinds; report its faults in `faults`."""
    if not isinstance(declared, Mapping) or len(declared) > _MOST_RECEIVERS:
        faults.append(f"receivers must map at most {_MOST_RECEIVERS} names to kinds")
        return {}
    wrong = "must have lower-case letters, digits and _, at most 32"
    return _choices("receivers", declared, ReceiverKind, _RECEIVER, wrong, faults)


def _choices(
    where: str,
    declared: Mapping[Any, Any],
    choices: type[_E],
    name_form: re.Pattern[str],
    wrong: str,
    faults: list[str],
) -> Mapping[str, _E]:
    """Parse a mapping of names to one of the choices. `wrong` is the fault of a name without the form."""
    found: dict[str, _E] = {}
    for name, choice in declared.items():
        if not isinstance(name, str) or not name_form.fullmatch(name):
            faults.append(f"{where}: {describe_value(name)} {wrong}")
        elif choice not in tuple(choices):
            faults.append(f"{where}.{name} must be one of {', '.join(choices)}, not {describe_value(choice)}")
        else:
            found[name] = choices(choice)
    return found
