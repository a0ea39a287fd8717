"""Takes a file into a ledger: finds its kind, reads it, records its events in batches and tells what became of it."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.importers.base import Importer, ImportReport, Problem, SessionImporter
from chatsnapshot.importers.kinds import IMPORTERS, KINDS, importer_of, known_by_sight, likeliest
from chatsnapshot.importers.recording import Recording
from chatsnapshot.importers.sessions import PROBLEMS_KEPT, import_family
from chatsnapshot.importers.sqlitefile import SIGN, whole_image
from chatsnapshot.importers.zstandard import open_packed
from chatsnapshot.limits import KIB, MIB

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["FILE_BYTES_MAX", "PROBLEMS_KEPT", "Job", "guess", "import_file", "import_job", "jobs"]

FILE_BYTES_MAX = 512 * MIB
"""A file is read whole."""

HEAD_BYTES = 64 * KIB

Progress = Callable[[int, int], None]
"""Is told how many bytes of how many are settled."""


def guess(path: str | os.PathLike[str], kind: str = "auto") -> Importer:
    """The importer of a file; with a ``kind`` that one, if the file could be one of its own and looks like nothing else.

    Raises :class:`InvalidEvent`, which says what the file looks like, :class:`~chatsnapshot.errors.NotFound` for a
    kind that there is not, ``OSError`` for a file that cannot be read.
    """
    wanted = None if kind == "auto" else importer_of(kind)
    name = os.fspath(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InvalidEvent(
            f"{name} is no regular file, which can be read again; copy what it gives to a file"
        )
    head, _ = _bytes(path, HEAD_BYTES)
    found = likeliest(head)
    if found is not None and wanted in (None, found):
        return found
    if wanted is None:
        seen = known_by_sight(head)
        looks = f"looks like {seen}" if seen else "looks like none of them"
        raise InvalidEvent(f"{name} {looks}; what can be imported is {', '.join(KINDS)}")
    seen = f"{found.what}: give {found.kind}" if found is not None else known_by_sight(head)
    if seen is None and wanted.looks_like(head) > 0:
        return wanted
    looks = f"it looks like {seen}" if seen else "nothing in its beginning says what it is"
    raise InvalidEvent(f"{name} is no {wanted.kind} file ({wanted.what}); {looks}")


Job = tuple[Importer, tuple[str, ...]]
"""An importer and the files that it reads together; the first one gives its name to the report."""


def jobs(paths: Sequence[str | os.PathLike[str]], kind: str = "auto", *, growing: bool = False) -> list[Job]:
    """What is to be read of files and folders: one job a session or a file; raises as :func:`guess` does.

    In a folder what looks like a session of ``kind`` is taken (``auto``: of any kind that has sessions); for a kind
    without sessions the files right in it that look like that kind. A folder with none is an :class:`InvalidEvent`.
    With ``growing`` only sessions are taken, and a folder may have none yet.
    """
    wanted = None if kind == "auto" else importer_of(kind)
    found: list[Job] = []
    together: dict[str, tuple[SessionImporter, list[str]]] = {}
    for path in paths:
        name = os.fspath(path)
        if os.path.isdir(name):
            if wanted is not None and not (growing or isinstance(wanted, SessionImporter)):
                found += [(wanted, (file,)) for file in _files_in(name, wanted)]
                continue
            readers = [one for one in ([wanted] if wanted else IMPORTERS) if isinstance(one, SessionImporter)]
            if not readers:
                raise InvalidEvent(f"{name} is a folder; name the {kind} files in it")
            inside = [one for one in readers if growing or one.families([name])]
            if not inside:
                kinds = " or ".join(one.what for one in readers)
                raise InvalidEvent(f"nothing in the folder {name} looks like {kinds}")
        else:
            importer = guess(name, kind)
            inside = [importer] if isinstance(importer, SessionImporter) else []
            if growing and not inside:
                raise InvalidEvent(
                    f"{name} is no file that grows; sessions can be followed, {importer.kind} files not"
                )
            if not inside:
                found.append((importer, (name,)))
        for one in inside:
            together.setdefault(one.kind, (one, []))[1].append(name)
    for reader, names in together.values():
        found += [(reader, family) for family in reader.families(names)]
    return found


def _files_in(folder: str, wanted: Importer) -> list[str]:
    """The files of a folder that look like that kind, by name."""
    names = sorted(one.path for one in os.scandir(folder) if one.is_file())
    found = [name for name in names if likeliest(_bytes(name, HEAD_BYTES)[0]) is wanted]
    if not found:
        raise InvalidEvent(f"nothing in the folder {folder} looks like {wanted.what}")
    return found


def import_file(
    ledger: Ledger,
    path: str | os.PathLike[str],
    kind: str = "auto",
    *,
    redact: object = "secrets",
    progress: Progress | None = None,
) -> ImportReport:
    """Record what a file says, each event once: the same file again records nothing.

    ``kind`` is one of :data:`KINDS` or ``auto``. A name that ends in ``.gz`` is decompressed. ``redact`` is what
    ``open(redact=...)`` takes. Further files of a session are found beside it and read with it. What cannot be taken
    is in the report's ``problems``; see :func:`guess` for what is raised, and
    :class:`~chatsnapshot.errors.LimitExceeded` for a file above 512 MiB that is no session.
    """
    importer = guess(path, kind)
    paths: tuple[str, ...] = (os.fspath(path),)
    if isinstance(importer, SessionImporter):
        (paths,) = importer.families(paths)
    return import_job(ledger, (importer, paths), redact=redact, progress=progress)


def import_job(
    ledger: Ledger, job: Job, *, redact: object = "secrets", progress: Progress | None = None
) -> ImportReport:
    """Record what the files of one of :func:`jobs` say; as :func:`import_file`."""
    ledger._check_writable()
    importer, paths = job
    if isinstance(importer, SessionImporter):
        return import_family(ledger, importer, paths, redact=redact, progress=progress)
    (path,) = paths
    data, damage = _bytes(path)
    if data.startswith(SIGN):
        data = whole_image(path, data)
    if len(data) > FILE_BYTES_MAX:
        raise LimitExceeded("FILE_BYTES_MAX", FILE_BYTES_MAX, len(data), "import the file in parts")
    size = len(data)
    tell = None if progress is None else lambda offset: progress(offset, size)
    work = Recording(ledger, redact, tell)
    work.take(importer.read(data))
    if damage is not None:
        work.problems.append(Problem(len(data), damage))
    problems = sorted(work.problems)
    return ImportReport(
        file=path,
        kind=importer.kind,
        bytes=len(data),
        correlations=tuple(work.correlations),
        stored=work.stored,
        known=work.known,
        problems=tuple(problems[:PROBLEMS_KEPT]),
        problem_count=len(problems),
        last_position=work.last_position,
    )


def _bytes(path: str | os.PathLike[str], bytes_max: int = FILE_BYTES_MAX + 1) -> tuple[bytes, str | None]:
    """The bytes of a file up to a limit, and what is wrong with its compression."""
    parts: list[bytes] = []
    size = 0
    with open_packed(path) as stream:
        try:
            while size < bytes_max and (part := stream.read1(min(MIB, bytes_max - size))):
                parts.append(part)
                size += len(part)
        except EOFError:
            return b"".join(parts), "the compressed data is cut off"
        except (gzip.BadGzipFile, zlib.error) as error:
            return b"".join(parts), f"the compressed data is damaged: {error}"
    return b"".join(parts), None
