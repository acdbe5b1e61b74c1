"""A file of a chat server's answers, so that a run can be repeated without the server."""

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rlver_gym.llm_client.values import ChatAnswer, ChatRequest
from rlver_gym.util.errors import CacheError, ChatError

_APPLICATION, _VERSION = 0x524C5654, 1
"""Marks the file as a response cache ("RLVT"), in SQLite's header."""
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
_MAX_VALUE_BYTES, _MAX_TOKENS = 64 << 20, 10**12
"""Of one value in the file: many times the longest answer that is taken from a server."""
_parent_connections: list[sqlite3.Connection] = []
"""Those of a parent process: neither used nor closed here, or its locks would go."""


class Row(NamedTuple):
    """One request and what came of it. In damaged text, bytes that are no UTF-8 are surrogates."""

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
        return self.checksum == _checksum(self) and self.key == _hash(self.request)

    def result(self) -> ChatAnswer | ChatError:
        if not self.is_intact:
            raise CacheError(
                f"the response cache's answer to request {self.key[:12]} was changed after it was"
                " recorded. See `rlver-gym cache stats`; `rlver-gym cache prune --damaged` has such"
                " requests asked again."
            )
        if self.answer is None:
            return ChatError(self.failure or "")
        counts = self.prompt_tokens, self.completion_tokens
        return ChatAnswer(self.answer, self.finish_reason, *counts)


class ResponseCache:
    """Requests and raw answers in one SQLite file, for several threads and processes at once."""

    def __init__(
        self, path: str | Path, *, must_exist: bool = False, read_only: bool = False
    ) -> None:
        """`must_exist`: do not begin a new file. `read_only`: nor write to it. Raises CacheError
        when the file is no response cache, or cannot be read.
        """
        self.path, self._read_only = Path(path), read_only
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._belongs: tuple[object, ...] = ()
        if (must_exist or read_only) and not self.path.exists():
            raise CacheError(
                f"{self.path}: there is no response cache. Record one first:"
                f" --response-cache {self.path} with a server."
            )
        with self._db():
            pass

    def get(self, key: str) -> ChatAnswer | ChatError | None:
        """The cached answer or error; None when there is none. CacheError when it was changed."""
        with self._db() as db:
            row = db.execute("SELECT * FROM answers WHERE key = ?", (key,)).fetchone()
        return _row_from(row).result() if row else None

    def put(
        self,
        request: ChatRequest,
        result: ChatAnswer | ChatError,
        *,
        server: str = "",
        overwrite: bool = False,
    ) -> ChatAnswer | ChatError:
        """Store a result; what the cache holds now: the first one, unless `overwrite`."""
        is_written = self.add(_make_row(request, result, server), overwrite=overwrite)
        return result if is_written else self.get(request.key) or result

    def add(self, row: Row, *, overwrite: bool = False) -> bool:
        verb, places = "REPLACE" if overwrite else "IGNORE", ",".join("?" * len(row))
        with self._db() as db:
            done = db.execute(f"INSERT OR {verb} INTO answers VALUES ({places})", row)
            return done.rowcount > 0

    def rows(self) -> Iterator[Row]:
        with (
            self._translate_errors(),
            closing(_connect(self.path, read_only=self._read_only)) as db,
        ):
            for row in db.execute("SELECT * FROM answers ORDER BY created, key"):
                yield _row_from(row)

    def has_answer_of(self, model: str) -> bool:
        query = "SELECT 1 FROM answers WHERE model = ? AND answer IS NOT NULL LIMIT 1"
        with self._db() as db:
            return db.execute(query, (model,)).fetchone() is not None

    def count_spent(self) -> tuple[int, int, int]:
        sums = "count(*), total(prompt_tokens), total(completion_tokens)"
        with self._db() as db:
            row = db.execute(f"SELECT {sums} FROM answers").fetchone()
        calls, prompt, completion = (max(0, min(int(number), _MAX_TOKENS)) for number in row)
        return calls, prompt, completion

    def damaged_keys(self) -> list[str]:
        return [row.key for row in self.rows() if not row.is_intact]

    def delete(self, keys: list[str]) -> None:
        """Delete these rows and give the space back; CacheError when damage keeps one from it."""
        raw = [key.encode("utf-8", "surrogateescape") for key in keys]  # be they text or not
        with self._db() as db:
            statement = "DELETE FROM answers WHERE key IN (CAST(? AS TEXT), ?)"
            db.executemany(statement, zip(raw, raw, strict=True))
            left = {_text(key) for (key,) in db.execute("SELECT key FROM answers")}
        # out of order in the file: a scan meets it, a search does not
        if not left.isdisjoint(keys):
            raise CacheError(
                f"{self.path}: a broken response cache, whose damaged rows cannot be deleted. Give"
                " another file."
            )
        with self._db() as db:
            db.execute("VACUUM")

    def close(self) -> None:
        """Write everything into the one file. The file is opened again when it is used."""
        with self._lock:
            self._disconnect()

    @contextmanager
    def _db(self) -> Iterator[sqlite3.Connection]:
        """A connection of this process to the file that is there now, for one statement."""
        with self._lock, self._translate_errors():
            belongs = os.getpid(), _file_id(self.path), self._read_only and _uri_options(self.path)
            if self._connection is None or self._belongs != belongs:
                self._disconnect()
                self._connection = _connect(self.path, read_only=self._read_only)
                self._belongs = os.getpid(), _file_id(self.path), belongs[2]
            yield self._connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise CacheError(
                f"{self.path}: {error}. Is the disk full? Give a place that can be read and"
                " written."
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            # the latter: a damaged schema, in whose message sqlite quotes it
            raise CacheError(
                f"{self.path}: not a response cache, or a broken one ({error}). Give another file."
            ) from error

    def __del__(self) -> None:
        """Close a cache that nobody closed, of which sqlite3 warns from Python 3.13 on."""
        if getattr(self, "_connection", None):
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection and self._belongs[0] == os.getpid():
            connection.close()
        elif connection:
            _parent_connections.append(connection)


def _file_id(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if path.is_dir() or not path.parent.is_dir():
        raise CacheError(
            f"{path}: no place for a response cache. Give a file in a folder that exists."
        )
    for part in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))):
        if part.exists() and not part.is_file():
            raise CacheError(
                f"{part}: not a regular file, so no part of a response cache. Give another file."
            )
    may_write = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    read_only |= path.exists() and not may_write
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
    log = path.with_name(f"{path.name}-wal")
    is_left = log.exists() and log.stat().st_size and os.access(path.parent, os.W_OK)
    return "mode=ro" if is_left else "immutable=1"


def _prepare_database(db: sqlite3.Connection, path: Path, read_only: bool) -> None:
    # First: they are made last.
    tables = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    mark, version = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    problem = None
    if tables and mark != _APPLICATION:
        problem = "a database, but not a response cache. Give another file."
    elif tables and version != _VERSION:
        problem = (
            f"a response cache of another version ({version}, not {_VERSION}). Use the rlver-gym"
            " that made it."
        )
    elif tables and tables != [("table", "answers", _TABLE.replace("IF NOT EXISTS ", ""))]:
        problem = (
            "holds more or other than a response cache's one table, so it is not believed. Give"
            " another file."
        )
    elif read_only and not tables:
        problem = "an empty file, not a response cache. Give another file."
    if problem:
        raise CacheError(f"{path}: {problem}")
    if read_only:
        return
    with suppress(sqlite3.OperationalError):  # locked: another process is just doing the same
        db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    if not tables:
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute(_TABLE)


def _text(value: object) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _row_from(values: tuple[object, ...]) -> Row:
    """A row. What is of another type than was written becomes one that fits no checksum."""
    plain = dict(zip(Row._fields, values, strict=True))
    for name, value in plain.items():
        if name.endswith("_tokens"):
            plain[name] = value if isinstance(value, int) and 0 <= value <= _MAX_TOKENS else 0
        elif value is not None or name not in ("answer", "failure", "finish_reason"):
            plain[name] = _text(value)
    return Row(**plain)  # pyright: ignore[reportArgumentType]


def _make_row(request: ChatRequest, result: ChatAnswer | ChatError, server: str) -> Row:
    answer = result if isinstance(result, ChatAnswer) else ChatAnswer("", None, 0, 0)
    text, failure = (answer.text, None) if result is answer else (None, str(result))
    created = datetime.now(UTC).isoformat(timespec="milliseconds")
    what = request.key, request.json(), request.model, text, failure
    row = Row(*what, *answer[1:], server=server, created=created, checksum="")
    return row._replace(checksum=_checksum(row))


def _checksum(row: Row) -> str:
    used = [row.key, row.answer, row.failure, *row[5:8]]
    return _hash(json.dumps(used, ensure_ascii=False, default=repr))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
