"""The form to edit a job and run it again: filled in like the job, with the files that came with its script."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace

from minimizer.service import archive, packing
from minimizer.store import Job, Store, UnknownJob
from web.pages.form import SWITCHES, Draft


def draft_of(job: Job, store: Store) -> Draft:
    """The form as it would have been filled in for a job."""
    values = {name: "" if value is None else str(value) for name, value in job.options.model_dump().items()}
    values |= {"args": shlex.join(job.options.args), "env": ", ".join(job.options.env)}
    values |= {name: "on" if getattr(job.options, name) else "" for name in SWITCHES}
    draft = Draft(store.jobs.script(job.id).decode(errors="replace"), job.filename, values, job.project)
    return _beside(draft, job, store) if job.has_archive else draft


def joined(script: bytes, draft: Draft, store: Store, sees: Callable[[str], bool]) -> tuple[bytes, Draft]:
    """A script that was edited, back among the files of the job that it came from, and the draft to show again.

    Anything else, and a zip archive that was chosen instead, stays as it is.

    Args:
        sees: whether whoever asks may see the jobs of this project.

    Raises:
        UnknownJob: there is no such job any more, or it is not open to whoever asks.
        Busy: too many archives are looked at.
    """
    if not draft.base or archive.is_zip(script):
        return script, replace(draft, base="")
    job = store.jobs.get(draft.base)
    packed = store.jobs.archive(job.id)
    if packed is None or not sees(job.project):
        raise UnknownJob
    draft = _beside(replace(draft, filename=job.filename, main=job.filename), job, store)
    if not script.strip():
        return script, draft
    with archive.unpacked(packed) as files:
        same = files[job.filename] == script
        return packed if same else packing.pack({**files, job.filename: script}), draft


def _beside(draft: Draft, job: Job, store: Store) -> Draft:
    packed = store.jobs.archive(job.id)
    names = [name for name in archive.names(packed) if name != job.filename] if packed is not None else []
    return replace(draft, base=job.id, beside=tuple(names))
