"""The noun Ledger: what a run tried, and what became of it, kept through kill -9.

One SQLite file (WAL) per run folder. A trial is written in one transaction after its verdict,
with everything that the verdict rests on, so a run that dies loses at most the trial that it
was judging. Texts and evidence are kept once, by their digest.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xesmith.errors import UsageError
from xesmith.lm.record import Message, Reply, Request, Usage

#: stages of trials that are no candidates: the kernel as given, and the file at a run's end
BASELINE, FINAL = "baseline", "final"

_SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    header TEXT NOT NULL,
    started REAL NOT NULL,
    finished REAL
);
CREATE TABLE blob (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE trial (
    id INTEGER PRIMARY KEY,
    parent INTEGER REFERENCES trial(id),
    stage TEXT NOT NULL,
    proposer TEXT NOT NULL,
    note TEXT NOT NULL,
    source TEXT NOT NULL REFERENCES blob(digest),
    passes TEXT NOT NULL,
    verdict TEXT NOT NULL,
    accepted INTEGER NOT NULL,
    summary TEXT NOT NULL,
    evidence TEXT REFERENCES blob(digest),
    lowered_hash TEXT,
    predicted_seconds REAL,
    wall_seconds REAL NOT NULL,
    created REAL NOT NULL,
    exchange INTEGER REFERENCES exchange(id)
);
CREATE TABLE exchange (
    id INTEGER PRIMARY KEY,
    channel TEXT NOT NULL,
    digest TEXT NOT NULL,
    label TEXT NOT NULL,
    stage TEXT NOT NULL,
    request TEXT NOT NULL REFERENCES blob(digest),
    reply TEXT NOT NULL REFERENCES blob(digest),
    model TEXT NOT NULL,
    finish TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    cost_usd REAL,
    seconds REAL NOT NULL,
    fault TEXT,
    created REAL NOT NULL
);
CREATE UNIQUE INDEX exchange_of_request ON exchange (channel, digest);
CREATE TABLE lost (
    channel TEXT NOT NULL,
    stage TEXT NOT NULL,
    label TEXT NOT NULL,
    reason TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL,
    seconds REAL NOT NULL
);
CREATE UNIQUE INDEX trial_of_candidate ON trial (stage, source, passes, coalesce(parent, 0));
CREATE TABLE stage (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    trial INTEGER REFERENCES trial(id)
);
"""


@dataclass(frozen=True)
class Trial:
    """One judged candidate.

    `passes` is the text of its plan of passes, "" for none: text and plan together are the
    candidate. `summary` holds the values shown in reports (contract names -> numbers); `evidence`
    is the digest of the JSON list of all its Evidence; `predicted_seconds` is a static prediction.
    """

    stage: str
    proposer: str
    note: str
    source: str  # digest of the candidate's text
    verdict: dict[str, Any]
    accepted: bool
    parent: int | None = None
    passes: str = ""
    summary: dict[str, Any] = field(default_factory=dict[str, Any])
    evidence: str | None = None
    lowered_hash: str | None = None
    predicted_seconds: float | None = None
    wall_seconds: float = 0.0
    exchange: int | None = None  # id of the exchange with a model that it came from
    id: int | None = None
    created: float = 0.0


@dataclass(frozen=True)
class Exchange:
    """One request to a model and its reply, with secrets taken out.

    `channel` names who answered. `fault`: why the reply held no candidate; None where it held
    one.
    """

    channel: str
    stage: str
    request: Request
    reply: Reply
    fault: str | None = None
    id: int | None = None


@dataclass(frozen=True)
class Lost:
    """What a request cost that got no reply. Tokens are estimated."""

    channel: str
    stage: str
    label: str
    reason: str
    usage: Usage
    seconds: float


@dataclass(frozen=True)
class StageOutcome:
    """What became of a stage: "improved", "refused", "skipped" or "no proposal", and why."""

    name: str
    position: int
    status: str
    reason: str
    trial: int | None = None


class Ledger:
    """The record of one run. Every method is one transaction.

    Raises (from the constructors):
        UsageError: the file is no ledger, of another version, or of another run's inputs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        # A verdict can be minutes of work: it must be on disk before the next one begins.
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA foreign_keys=ON")

    @classmethod
    def create(cls, path: Path, header: Mapping[str, Any]) -> Ledger:
        """A new ledger; `header` is JSON that says what the run is of."""
        ledger = cls(path)
        with ledger._transaction() as db:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")
            db.execute(
                "INSERT INTO run (id, header, started) VALUES (1, ?, ?)",
                (_json(header), time.time()),
            )
        return ledger

    @classmethod
    def is_begun(cls, path: Path) -> bool:
        """Whether the file holds a run; one that died before its first write left none."""
        if not path.is_file():
            return False
        with cls._opened(path) as ledger:
            (version,) = ledger._db.execute("PRAGMA user_version").fetchone()
        return version != 0

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """The ledger of an earlier run."""
        if not path.is_file():
            raise UsageError(
                "there is no ledger here",
                where=str(path),
                remedy="give the folder of an earlier run of xesmith optimize",
            )
        ledger = cls._opened(path)
        (version,) = ledger._db.execute("PRAGMA user_version").fetchone()
        if version != _SCHEMA_VERSION:
            ledger.close()
            raise UsageError(
                f"the ledger has format {version}; this xesmith reads {_SCHEMA_VERSION}",
                where=str(path),
                remedy="start a new run in another folder",
            )
        return ledger

    @classmethod
    def _opened(cls, path: Path) -> Ledger:
        try:
            return cls(path)
        except sqlite3.DatabaseError as error:
            raise UsageError(
                f"the file is no ledger: {error}",
                where=str(path),
                remedy="give the folder of an earlier run",
            ) from error

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def header(self) -> dict[str, Any]:
        (text,) = self._db.execute("SELECT header FROM run").fetchone()
        return json.loads(text)

    @property
    def finished(self) -> bool:
        (when,) = self._db.execute("SELECT finished FROM run").fetchone()
        return when is not None

    def finish(self) -> None:
        self._db.execute("UPDATE run SET finished=?", (time.time(),))

    def put(self, text: str) -> str:
        """Keeps a text and answers its digest."""
        digest = text_digest(text)
        self._db.execute(
            "INSERT OR IGNORE INTO blob VALUES (?, ?)", (digest, zlib.compress(text.encode()))
        )
        return digest

    def get(self, digest: str) -> str:
        (data,) = self._db.execute("SELECT data FROM blob WHERE digest=?", (digest,)).fetchone()
        return zlib.decompress(data).decode()

    def add(self, trial: Trial, *, source_text: str, evidence_json: str | None = None) -> Trial:
        """Keeps a trial with its texts; the answer has its id."""
        with self._transaction() as db:
            source = self.put(source_text)
            evidence = None if evidence_json is None else self.put(evidence_json)
            created = time.time()
            cursor = db.execute(
                "INSERT INTO trial (parent, stage, proposer, note, source, passes, verdict,"
                " accepted, summary, evidence, lowered_hash, predicted_seconds, wall_seconds,"
                " created, exchange) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    trial.parent,
                    trial.stage,
                    trial.proposer,
                    trial.note,
                    source,
                    trial.passes,
                    _json(trial.verdict),
                    trial.accepted,
                    _json(trial.summary),
                    evidence,
                    trial.lowered_hash,
                    trial.predicted_seconds,
                    trial.wall_seconds,
                    created,
                    trial.exchange,
                ),
            )
        assert cursor.lastrowid is not None
        return self.trial(cursor.lastrowid)

    def revise(self, trial_id: int, verdict: Mapping[str, Any], *, accepted: bool) -> Trial:
        """A trial that was judged further than before."""
        self._db.execute(
            "UPDATE trial SET verdict=?, accepted=? WHERE id=?",
            (_json(verdict), accepted, trial_id),
        )
        return self.trial(trial_id)

    def trial(self, trial_id: int) -> Trial:
        (found,) = self._select("WHERE id=?", (trial_id,))
        return found

    def find(self, stage: str, source: str, parent: int | None, passes: str = "") -> Trial | None:
        """The trial of this candidate in this stage after this parent, if it was judged."""
        found = self._select(
            "WHERE stage=? AND source=? AND passes=? AND coalesce(parent, 0)=?",
            (stage, source, passes, parent or 0),
        )
        return found[0] if found else None

    def trials(self) -> list[Trial]:
        """All trials in the order in which they were judged."""
        return self._select("ORDER BY id", ())

    def add_exchange(self, channel: str, stage: str, request: Request, reply: Reply) -> Exchange:
        """Keeps a reply as soon as it is there: it may have cost money, and is not asked again."""
        with self._transaction() as db:
            asked, answered = self.put(_json(asdict(request))), self.put(reply.text)
            usage = reply.usage
            cursor = db.execute(
                "INSERT INTO exchange (channel, digest, label, stage, request, reply, model,"
                " finish, prompt_tokens, completion_tokens, estimated, cost_usd, seconds, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    channel,
                    request.digest,
                    request.label,
                    stage,
                    asked,
                    answered,
                    reply.model,
                    reply.finish,
                    usage.prompt_tokens,
                    usage.completion_tokens,
                    usage.estimated,
                    usage.cost_usd,
                    reply.seconds,
                    time.time(),
                ),
            )
        return Exchange(channel, stage, request, reply, id=cursor.lastrowid)

    def set_fault(self, channel: str, digest: str, fault: str) -> None:
        """Notes why a channel's reply to the request of this digest held no candidate."""
        self._db.execute(
            "UPDATE exchange SET fault=? WHERE channel=? AND digest=?", (fault, channel, digest)
        )

    def find_exchange(self, channel: str, digest: str) -> Exchange | None:
        """The exchange of a channel whose request has this digest, if there was one."""
        found = self._exchanges("WHERE channel=? AND digest=?", (channel, digest))
        return found[0] if found else None

    def add_lost(self, lost: Lost) -> None:
        """Keeps what a request cost that got no reply."""
        usage = lost.usage
        self._db.execute(
            "INSERT INTO lost VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(lost.channel, lost.stage, lost.label, lost.reason),
                *(usage.prompt_tokens, usage.completion_tokens, usage.cost_usd, lost.seconds),
            ),
        )

    def lost(self) -> list[Lost]:
        """All requests that got no reply, in order."""
        rows = self._db.execute("SELECT * FROM lost ORDER BY rowid").fetchall()
        return [
            Lost(
                channel=channel,
                stage=stage,
                label=label,
                reason=reason,
                usage=Usage(prompt, completion, estimated=True, cost_usd=cost),
                seconds=seconds,
            )
            for channel, stage, label, reason, prompt, completion, cost, seconds in rows
        ]

    def exchanges(self) -> list[Exchange]:
        """All exchanges in the order in which they were held."""
        return self._exchanges("ORDER BY id", ())

    def _exchanges(self, clause: str, values: tuple[Any, ...]) -> list[Exchange]:
        rows = self._db.execute(
            "SELECT id, stage, request, reply, model, finish, prompt_tokens, completion_tokens,"
            f" estimated, cost_usd, seconds, fault, channel FROM exchange {clause}",
            values,
        ).fetchall()
        found: list[Exchange] = []
        for row in rows:
            asked = json.loads(self.get(row[2]))
            messages = tuple(Message(**message) for message in asked["messages"])
            usage = Usage(row[6], row[7], estimated=bool(row[8]), cost_usd=row[9])
            found.append(
                Exchange(
                    id=row[0],
                    channel=row[12],
                    stage=row[1],
                    request=Request(asked["label"], messages, asked["temperature"]),
                    reply=Reply(self.get(row[3]), row[4], row[5], usage, row[10]),
                    fault=row[11],
                )
            )
        return found

    def set_stage(self, outcome: StageOutcome) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO stage VALUES (?, ?, ?, ?, ?)",
            (outcome.name, outcome.position, outcome.status, outcome.reason, outcome.trial),
        )

    def stages(self) -> list[StageOutcome]:
        rows = self._db.execute(
            "SELECT name, position, status, reason, trial FROM stage ORDER BY position"
        )
        return [StageOutcome(*row) for row in rows]

    def _select(self, clause: str, values: tuple[Any, ...]) -> list[Trial]:
        rows = self._db.execute(
            "SELECT id, parent, stage, proposer, note, source, verdict, accepted, summary,"
            " evidence, lowered_hash, predicted_seconds, wall_seconds, created, exchange, passes"
            f" FROM trial {clause}",
            values,
        )
        return [
            Trial(
                id=row[0],
                parent=row[1],
                stage=row[2],
                proposer=row[3],
                note=row[4],
                source=row[5],
                verdict=json.loads(row[6]),
                accepted=bool(row[7]),
                summary=json.loads(row[8]),
                evidence=row[9],
                lowered_hash=row[10],
                predicted_seconds=row[11],
                wall_seconds=row[12],
                created=row[13],
                exchange=row[14],
                passes=row[15],
            )
            for row in rows
        ]

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def text_digest(text: str) -> str:
    """SHA-256 of the text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
