"""A cache of a chat server's answers in a file (a "tape"), so that a run can be repeated without
the server.
"""

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rlver_gym.io.errors import ChatError, TapeError
from rlver_gym.llm_client.values import ChatAnswer, ChatRequest

_APPLICATION = 0x524C5654
"""Marks the file as a tape ("RLVT"), in SQLite's header."""
_VERSION = 1
_TABLE = """CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,       -- hash of the request
    request TEXT NOT NULL,      -- as JSON
    model TEXT NOT NULL,
    answer TEXT,                -- the raw text; NULL when it failed
    failure TEXT,               -- why there is no answer; NULL when there is one
    finish_reason TEXT,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    server TEXT NOT NULL,       -- its address, without credentials
    created TEXT NOT NULL,      -- UTC, ISO 8601
    checksum TEXT NOT NULL      -- over the fields that a replay uses
) WITHOUT ROWID"""
_WAIT_S = 30.0
"""How long to wait for another process that is writing."""
_MAX_VALUE_BYTES = 64 << 20
"""Of one value in the file: many times the longest answer that is taken from a server."""
_MAX_TOKENS = 10**12


class Row(NamedTuple):
    """One request and what came of it, as the file holds it.

    In text that was damaged, bytes that are no UTF-8 are lone surrogates.
    """

    key: str
    request: str
    model: str
    answer: str | None
    failure: str | None
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    server: str
    created: str
    checksum: str

    @property
    def is_intact(self) -> bool:
        """Whether the row is as it was written."""
        return self.checksum == _checksum(self) and self.key == _request_key(self.request)

    def result(self) -> ChatAnswer | ChatError:
        """The answer, or the error, that the request ended in.

        TapeError when the row was changed.
        """
        if not self.is_intact:
            raise TapeError(
                f"the tape's answer to request {self.key[:12]} was changed after it was recorded."
                " See `rlver-gym tape stats`; `rlver-gym tape prune --damaged` has such requests"
                " asked again."
            )
        if self.answer is None:
            return ChatError(self.failure or "")
        return ChatAnswer(
            self.answer, self.finish_reason, self.prompt_tokens, self.completion_tokens
        )


class ResponseCache:
    """Requests and raw answers in one SQLite file.

    Safe to use from several threads and processes at once, also across a fork.
    """

    def __init__(
        self, path: str | Path, *, must_exist: bool = False, read_only: bool = False
    ) -> None:
        """`must_exist`: do not begin a new tape.

        `read_only`: nor write to it, whoever made it. Raises TapeError when the file is no tape, or
        cannot be read.
        """
        self.path = Path(path)
        self._read_only = read_only
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._parent_connections: list[sqlite3.Connection] = []
        """Those of a parent process: neither used nor closed here, or its locks would go."""
        if (must_exist or read_only) and not self.path.exists():
            raise TapeError(
                f"{self.path}: there is no tape. Record one first: --tape {self.path} with a"
                " server."
            )
        with self._db():
            pass

    def get(self, key: str) -> ChatAnswer | ChatError | None:
        """The cached result for this key: an answer, or the error that the request ended in; None
        when there is none. TapeError when it was changed.
        """
        with self._db() as db:
            found = db.execute("SELECT * FROM answers WHERE key = ?", (key,)).fetchone()
        return _row_from(found).result() if found else None

    def put(
        self,
        request: ChatRequest,
        result: ChatAnswer | ChatError,
        *,
        server: str = "",
        overwrite: bool = False,
    ) -> ChatAnswer | ChatError:
        """Store a result and return what the cache holds now: unless `overwrite`, the first one
        stays, whoever wrote it.
        """
        is_written = self.add(make_row(request, result, server), overwrite=overwrite)
        return result if is_written else self.get(request.key) or result

    def add(self, row: Row, *, overwrite: bool = False) -> bool:
        """Store a row and return whether it is there now: unless `overwrite`, the first one of its
        key stays.
        """
        verb = "INSERT OR REPLACE" if overwrite else "INSERT OR IGNORE"
        with self._db() as db:
            places = ",".join("?" * len(row))
            return db.execute(f"{verb} INTO answers VALUES ({places})", row).rowcount > 0

    def rows(self) -> Iterator[Row]:
        """All rows, oldest first."""
        with self._db() as db:
            keys = db.execute("SELECT key FROM answers ORDER BY created, key").fetchall()
        for (key,) in keys:
            with self._db() as db:
                found = db.execute(
                    f"SELECT * FROM answers WHERE {_IS_KEY}", _key_parameters(_text(key))
                ).fetchone()
            if found:
                yield _row_from(found)

    def has_answer_of(self, model: str) -> bool:
        """Whether the model has answered anything."""
        with self._db() as db:
            found = db.execute(
                "SELECT 1 FROM answers WHERE model = ? AND answer IS NOT NULL LIMIT 1", (model,)
            )
            return found.fetchone() is not None

    def count_spent(self) -> tuple[int, int, int]:
        """Requests, prompt tokens and completion tokens of all rows."""
        with self._db() as db:
            sums = db.execute(
                "SELECT count(*), total(prompt_tokens), total(completion_tokens) FROM answers"
            ).fetchone()
        calls, prompt, completion = (max(0, min(int(one), _MAX_TOKENS)) for one in sums)
        return calls, prompt, completion

    def damaged_keys(self) -> list[str]:
        """Keys of the rows that are not as they were written."""
        return [row.key for row in self.rows() if not row.is_intact]

    def delete(self, keys: list[str]) -> None:
        """Delete these rows and give the space back; TapeError when damage keeps one from it."""
        with self._db() as db:
            db.executemany(f"DELETE FROM answers WHERE {_IS_KEY}", map(_key_parameters, keys))
            left = {_text(key) for (key,) in db.execute("SELECT key FROM answers")}
        if not left.isdisjoint(
            keys
        ):  # out of order in the file: a scan meets it, a search does not
            raise TapeError(
                f"{self.path}: a broken tape, whose damaged rows cannot be deleted. Give another"
                " file."
            )
        with self._db() as db:
            db.execute("VACUUM")

    def close(self) -> None:
        """Write everything into the one file. The file is opened again when it is used."""
        with self._lock:
            self._disconnect()

    @contextmanager
    def _db(self) -> Iterator[sqlite3.Connection]:
        """The connection of this process to the file that is there now, for one statement."""
        with self._lock:
            try:
                if self._connection is None or self._connection[1:] != (
                    os.getpid(),
                    _file_id(self.path),
                    self._read_mode(),
                ):
                    self._disconnect()
                    db = _connect(self.path, read_only=self._read_only)
                    self._connection = _Connection(
                        db, os.getpid(), _file_id(self.path), self._read_mode()
                    )
                yield self._connection.db
            except sqlite3.OperationalError as error:
                raise TapeError(
                    f"{self.path}: {error}. Is the disk full? Give a place that can be read and"
                    " written."
                ) from error
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                # the latter: a damaged schema, in whose message sqlite quotes it
                raise TapeError(
                    f"{self.path}: not a tape, or a broken one ({error}). Give another file."
                ) from error

    def _read_mode(self) -> str:
        return _uri_options(self.path) if self._read_only else ""

    def __del__(self) -> None:
        """Close a cache that nobody closed: from Python 3.13 on, sqlite3 warns of such
        connections.
        """
        connection = getattr(self, "_connection", None)
        if connection:
            connection.close_if_own()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection and not connection.close_if_own():
            self._parent_connections.append(connection.db)


class _Connection(NamedTuple):
    """A connection, and where it belongs: neither a forked process nor a new file of the same name
    may use it.
    """

    db: sqlite3.Connection
    process: int
    file: tuple[int, int] | None
    read_mode: str
    """How it is read, when it is read-only: another process may begin to write."""

    def close_if_own(self) -> bool:
        """Close it, and whether that was for this process to do: a parent's locks would go with its
        connection.
        """
        is_own = self.process == os.getpid()
        if is_own:
            self.db.close()
        return is_own


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if path.is_dir() or not path.parent.is_dir():
        raise TapeError(f"{path}: no place for a tape. Give a file in a folder that exists.")
    for part in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))):
        if part.exists() and not part.is_file():
            raise TapeError(f"{part}: not a regular file, so no part of a tape. Give another file.")
    read_only |= path.exists() and not (
        os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    )
    where = f"{path.resolve().as_uri()}?{_uri_options(path)}" if read_only else str(path)
    db = sqlite3.connect(
        where, uri=read_only, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
    )
    try:
        db.text_factory = _text
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        db.execute("PRAGMA trusted_schema = OFF")
        _prepare_database(db, path, read_only)
    except BaseException:
        db.close()
        raise
    return db


def _uri_options(path: Path) -> str:
    """The options of the URI with which SQLite reads a file without writing to it.

    Only where a killed process left a log beside it does that have to be looked into.
    """
    log = path.with_name(f"{path.name}-wal")
    return (
        "mode=ro"
        if log.exists() and log.stat().st_size and os.access(path.parent, os.W_OK)
        else "immutable=1"
    )


def _prepare_database(db: sqlite3.Connection, path: Path, readonly: bool) -> None:
    """Create the table in an empty file; TapeError for a file that is something else, or would be
    more than a table when it is read.
    """
    # First: they are made last.
    tables = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    mark = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if tables and mark != _APPLICATION:
        raise TapeError(f"{path}: a database, but not a tape. Give another file.")
    if tables and version != _VERSION:
        raise TapeError(
            f"{path}: a tape of another version ({version}, not {_VERSION}). Use the rlver-gym that"
            " made it."
        )
    if tables and tables != [("table", "answers", _TABLE.replace("IF NOT EXISTS ", ""))]:
        raise TapeError(
            f"{path}: holds more or other than a tape's one table, so it is not believed. Give"
            " another file."
        )
    if readonly:
        if not tables:
            raise TapeError(f"{path}: an empty file, not a tape. Give another file.")
        return
    with suppress(sqlite3.OperationalError):  # locked: another process is just doing the same
        db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    if not tables:
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute(_TABLE)


_IS_KEY = "key IN (CAST(? AS TEXT), ?)"
"""Finds a row by the bytes of its key, be they text or not."""


def _key_parameters(key: str) -> tuple[bytes, bytes]:
    raw = key.encode("utf-8", "surrogateescape")
    return raw, raw


def _text(value: object) -> str:
    """A value of a damaged row that should be text."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _row_from(found: tuple[object, ...]) -> Row:
    """A row of the file.

    What is not of the type that was written becomes one that its checksum does not fit.
    """
    plain = dict(zip(Row._fields, found, strict=True))
    for name, value in plain.items():
        if name.endswith("_tokens"):
            plain[name] = value if isinstance(value, int) and 0 <= value <= _MAX_TOKENS else 0
        elif value is not None or name not in ("answer", "failure", "finish_reason"):
            plain[name] = _text(value)
    return Row(**plain)  # pyright: ignore[reportArgumentType]


def make_row(request: ChatRequest, result: ChatAnswer | ChatError, server: str) -> Row:
    """The row of a request that ends now, at this server."""
    answer = result if isinstance(result, ChatAnswer) else ChatAnswer("", None, 0, 0)
    row = Row(
        key=request.key,
        request=request.json(),
        model=request.model,
        answer=answer.text if result is answer else None,
        failure=None if result is answer else str(result),
        finish_reason=answer.finish_reason,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        server=server,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        checksum="",
    )
    return row._replace(checksum=_checksum(row))


def _checksum(row: Row) -> str:
    used = [
        row.key,
        row.answer,
        row.failure,
        row.finish_reason,
        row.prompt_tokens,
        row.completion_tokens,
    ]
    return hashlib.sha256(
        json.dumps(used, ensure_ascii=False, default=repr).encode(errors="surrogateescape")
    ).hexdigest()


def _request_key(request: str) -> str:
    """The key of a stored request. Empty when it is none."""
    return hashlib.sha256(request.encode(errors="surrogateescape")).hexdigest()
