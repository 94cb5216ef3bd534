"""Settings of the service: environment variables with the prefix ``MINIMIZER_`` (one table in docs/settings.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from minimizer.errors import InvalidOption


class Settings(BaseSettings):
    """Every setting, its default and what it is for."""

    model_config = SettingsConfigDict(env_prefix="MINIMIZER_", extra="ignore", frozen=True, hide_input_in_errors=True)

    data_dir: Path = Field(Path("minimizer-data"), description="Folder of the embedded database and broker.")
    database_url: str | None = Field(None, description="SQLAlchemy URL; default is SQLite in the data folder.")
    broker_url: str | None = Field(
        None, description="Celery broker URL; default is the file system in the data folder."
    )
    access: Literal["off", "on"] = Field(
        "off",
        description="on: users sign in, projects keep others out, and the service may listen beyond loopback; off: for one person on one machine.",
    )
    host: str = Field(
        "127.0.0.1", description="Address the web server listens on; beyond loopback only with access control on."
    )
    port: int = Field(8000, ge=1, le=65535, description="Port the web server listens on.")
    published_on_loopback: bool = Field(
        False,
        description="The process runs in a container whose port is published on the host's loopback only; then it may listen on every address of the container.",
    )
    allowed_hosts: str = Field(
        "127.0.0.1,localhost,[::1]", description="Host headers that are answered, separated by commas."
    )
    trusted_proxies: int = Field(
        0, ge=0, description="Reverse proxies in front whose X-Forwarded-For and X-Forwarded-Proto are believed."
    )
    oidc_issuer: str = Field(
        "", description="OpenID provider for single sign-on (https://...), with access control on; empty: none."
    )
    oidc_client_id: str = Field("", description="Name this service is registered under at the OpenID provider.")
    oidc_client_secret: SecretStr | None = Field(
        None, description="Secret the OpenID provider has given to this service; the same for all web processes."
    )
    oidc_claim: str = Field(
        "email",
        min_length=1,
        description="What the OpenID provider says of a person that is the name of the user here; an email in lower case.",
    )
    oidc_role: Literal["", "viewer", "member"] = Field(
        "",
        description="Role of users whom single sign-on creates when they first come in; empty: an admin creates every user.",
    )
    requests_per_minute: int = Field(
        600,
        ge=1,
        description="Requests a user may make in a minute, all tokens together, with access control on; further ones get 429.",
    )
    max_open_jobs: int = Field(
        100, ge=1, description="Jobs of one user that may wait or run, with access control on; further ones get 429."
    )
    max_script_bytes: int = Field(1 << 20, ge=1024, description="Largest script that is accepted, in bytes.")
    max_archive_bytes: int = Field(
        16 << 20, ge=1024, description="Largest zip archive of a script and its files that is accepted, in bytes."
    )
    max_queued_jobs: int = Field(1000, ge=1, description="Jobs that may wait; further ones are answered with 429.")
    sandbox: Literal["auto", "required", "off"] = Field(
        "auto",
        description="auto uses bubblewrap where it works and says so where not; required refuses to run without it.",
    )
    lease_seconds: float = Field(30.0, gt=0, description="A job whose worker is silent for longer is given to another.")
    heartbeat_seconds: float = Field(
        3.0,
        gt=0,
        validate_default=True,
        description="How often a worker renews its lease and looks for a cancel request; at most half of the lease.",
    )
    reap_seconds: float = Field(
        5.0, gt=0, description="How often expired leases and forgotten queued jobs are looked for."
    )
    max_attempts: int = Field(3, ge=1, description="A job that takes its worker down this many times is given up.")
    event_streams: int = Field(8, ge=1, description="Server-sent event streams one web process serves at once.")
    web_threads: int = Field(24, ge=4, description="Threads of the web server.")
    trial_jobs: int = Field(
        default_factory=lambda: max(1, len(os.sched_getaffinity(0))),
        ge=1,
        description="Trials that run at once in one job.",
    )
    trial_memory_bytes: int = Field(8 << 30, ge=1 << 28, description="Memory one process of a job may take for itself.")
    job_memory_bytes: int | None = Field(
        None,
        ge=1 << 28,
        description="Memory that all processes of one job may take together, files in memory included; default is three quarters of the machine's, or of its container's.",
    )
    gpu_jobs: int = Field(
        1,
        ge=1,
        description="Jobs that may run at once on one GPU, all workers of a machine together; they share its memory.",
    )
    gpu_locks: Path = Field(
        Path("/tmp/minimizer-gpus"),
        description="Folder with the locks of the GPUs, the same for all workers of a machine.",
    )
    script_env: str = Field(
        "",
        description="Environment variables of the worker, separated by commas, that a job may ask for with `env`; * allows all but MINIMIZER_*.",
    )
    log_format: Literal["text", "json"] = Field("text", description="How web and worker write their logs.")
    toolchains: str = Field(
        "",
        description="Further Python interpreters, as name=path separated by commas; a repro is run in each, to say since when it fails.",
    )

    @field_validator("broker_url")
    @classmethod
    def _check_broker(cls, value: str | None) -> str | None:
        """Refuse it here, or the client's error would show a part of the password, which it mistakes for the port."""
        for url in (value or "").split(";"):
            try:
                _ = urlsplit(url).port
            except ValueError:
                message = (
                    "it is not an address like redis://user:password@host:6379/0; "
                    "in a password write / # ? as %2F %23 %3F"
                )
                raise PydanticCustomError("broker", message) from None
        return value

    @field_validator("heartbeat_seconds")
    @classmethod
    def _check_heartbeat(cls, value: float, info: ValidationInfo) -> float:
        """Refused here, or every job loses its lease before it is renewed, and is run again and again."""
        lease = info.data.get("lease_seconds")
        if lease is not None and value > lease / 2:
            message = "{value} s is more than half of MINIMIZER_LEASE_SECONDS, which is {lease}"
            raise PydanticCustomError("heartbeat", message, {"value": f"{value:g}", "lease": f"{lease:g}"})
        return value

    @field_validator("toolchains")
    @classmethod
    def _check_toolchains(cls, value: str) -> str:
        """Refused here, or a job that names the one with the slip waits for a worker that never comes."""
        seen = set()
        for name, path in _pairs(value):
            if not name or not path:
                raise PydanticCustomError("toolchain", "it is name=path, separated by commas, and a part is not")
            if name in seen:
                raise PydanticCustomError("toolchain", "the name {name} is there twice", {"name": repr(name)})
            seen.add(name)
        return value

    @property
    def interpreters(self) -> dict[str, Path]:
        """The interpreters of ``toolchains`` by name."""
        return {name: Path(path) for name, path in _pairs(self.toolchains)}

    @property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'minimizer.db'}"

    @property
    def resolved_broker_url(self) -> str:
        return self.broker_url or "filesystem://"

    def make_data_dir(self) -> None:
        """Create the folder of the embedded database and broker if missing, readable for its owner only.

        Raises:
            InvalidOption: the folder cannot be created there.
        """
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidOption(
                f"{self.data_dir} cannot be the data folder ({error.strerror}): name another in MINIMIZER_DATA_DIR"
            ) from None


def _pairs(toolchains: str) -> Iterator[tuple[str, str]]:
    for part in filter(str.strip, toolchains.split(",")):
        name, _, path = part.partition("=")
        yield name.strip(), path.strip()


def settings_from_environment(**overrides: Any) -> Settings:
    """The settings of the environment, overridden by the command line.

    Raises:
        InvalidOption: a variable has an invalid value.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors()[0]
        name = "MINIMIZER_" + "_".join(str(part).upper() for part in first["loc"])
        raise InvalidOption(f"{name}: {first['msg']} (see docs/settings.md)") from None
