"""What a task may reach, and the measures that hold it there.

A `Confinement` is asked for by the client; the server (`prepare_server`) and each child
(`enter`) put the measures into force. Each measure answers with a `Measure`: in force, or not
and why, and this goes into the task's result. A measure that this machine does not allow is
left out and said; only where a task asks for it by `required` does it fail.

Standard library only: runs in a toolchain's own Python (any from 3.9).
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from xesmith.worker import linux

Name = Literal[
    "group",  # a session and process group of its own, ended as a whole
    "environment",  # an allow-list of variables; HOME, TMPDIR and caches in the private folder
    "limits",  # of time, files, processes and file size; no core dumps
    "address space",
    "memory watch",  # by resident size, over all processes of the task
    "parent death",  # ends when the server ends
    "no new privileges",
    "user",  # an unprivileged user id
    "user namespace",
    "network",  # none: a namespace without interfaces
    "processes",  # a PID namespace: sees, and leaves behind, nothing
    "files",  # Landlock: writes its folder alone, reads what it needs
    "signals",  # Landlock: none to anything outside
    "system calls",  # seccomp: no foreign sockets, tracing, mounts, namespaces
]

#: what is not read from /etc stays unread: it holds secrets of the machine
_ETC = (
    "alternatives",
    "debian_version",
    "group",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "nvidia",
    "OpenCL",
    "os-release",
    "passwd",
    "ssl/openssl.cnf",
    "timezone",
)
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/proc", "/sys")
_USABLE_DEVICES = ("null", "zero", "full", "random", "urandom")
_GPU_DEVICES = ("dri", "kfd", "dxg")  # beside nvidia*

_LEFT_OUT = "left out as asked"

#: more than a compiler with its threads needs, less than a fork bomb
LARGEST_PROCESS_COUNT = 512
LARGEST_OPEN_FILE_COUNT = 4096
#: a ghost tensor is reserved and never touched, so the limit is far above any memory
LARGEST_RESERVATION_BYTES = 64 << 30


@dataclass(frozen=True)
class Measure:
    """One measure, as it was put into force: `why` says how, or why not."""

    name: Name
    in_force: bool
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {'on' if self.in_force else 'off'}" + (
            f" ({self.why})" if self.why else ""
        )


@dataclass(frozen=True)
class Confinement:
    """What a task may reach beside its private folder.

    Args:
        readable: files and folders of the task, beside the toolchain and the system's libraries.
        writable: folders beside the private one.
        device: whether it uses a GPU. Its driver reserves an address space beyond any limit, so
            that is not limited then; memory is watched by resident size either way.
        off: measures to leave out, for tests of what they stop.
        required: measures without which the task must not run: it then ends as "unconfined".
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    device: bool = False
    off: tuple[Name, ...] = ()
    required: tuple[Name, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Confinement:
        return cls(
            tuple(data["readable"]),
            tuple(data["writable"]),
            data["device"],
            tuple(data["off"]),
            tuple(data["required"]),
        )


class UnconfinedError(Exception):
    """A required measure could not be put into force."""


@dataclass
class Host:
    """The server's own part: namespaces that all its children share, and what they may read."""

    measures: list[Measure] = field(default_factory=list[Measure])
    readable: list[str] = field(default_factory=list[str])
    own_pid_namespace: int | None = None  # None: no PID namespaces here
    why_no_pid_namespace: str = ""
    as_root: bool = False


def prepare_server(import_path: Sequence[str], off: Sequence[Name]) -> Host:
    """Moves this process, which has one thread, into namespaces of its own.

    Where that takes another process (a PID namespace that is not root's holds only children),
    this one waits for it, and what returns is the other.
    """
    host = Host(as_root=os.geteuid() == 0)
    if not host.as_root:
        _try(host.measures, off, "user namespace", linux.enter_user_namespace)
    _try(host.measures, off, "network", linux.enter_network_namespace)
    try:
        if not host.as_root:
            linux.enter_pid_namespace()
        host.own_pid_namespace = linux.own_pid_namespace()
    except OSError as error:
        host.why_no_pid_namespace = _why(error)
    host.readable = _readable(import_path)
    return host


def _readable(import_path: Sequence[str]) -> list[str]:
    """What Python, the compiler and the driver need."""
    package = str(Path(__file__).resolve().parents[1])
    paths = [
        *_SYSTEM,
        *(f"/etc/{name}" for name in _ETC),
        sys.prefix,
        sys.base_prefix,
        package,
        *sysconfig.get_paths().values(),
        *(path for path in sys.path if path),
        *import_path,
        *os.environ.get("PATH", "").split(":"),
        *os.environ.get("LD_LIBRARY_PATH", "").split(":"),
        os.path.dirname(os.path.realpath(sys.executable)),
    ]
    real = {os.path.realpath(path) for path in paths if path}
    return sorted(path for path in real if path != "/" and os.path.exists(path))


@dataclass(frozen=True)
class Processes:
    """A PID namespace for one child. Its first process is `init`, which only waits.

    When the server ends, `init` reads the end of its input and ends, and the kernel ends all
    other processes of the namespace with it; so it does when `init` is ended.
    """

    init: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.init.pid

    def end(self) -> None:
        self.init.kill()
        assert self.init.stdin is not None
        self.init.stdin.close()
        self.init.wait()


@contextlib.contextmanager
def new_processes(host: Host, confinement: Confinement) -> Any:
    """What is forked inside belongs to a new PID namespace (a `Processes`, or None)."""
    if host.own_pid_namespace is None or "processes" in confinement.off:
        yield None
        return
    try:
        linux.unshare(linux.CLONE_NEWPID)
    except OSError as error:
        host.own_pid_namespace, host.why_no_pid_namespace = None, _why(error)
        yield None
        return
    try:
        init = subprocess.Popen(
            ["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        yield Processes(init)
    finally:
        linux.set_namespace(host.own_pid_namespace, linux.CLONE_NEWPID)


def enter(
    confinement: Confinement,
    host: Host,
    folder: Path,
    *,
    timeout_s: float,
    memory_bytes: int,
    in_pid_namespace: bool,
    uid: int | None,
    own_bytes: int,
) -> list[Measure]:
    """Confines this process, the task's own, for good.

    Args:
        uid: whom root becomes; None where this process is no root.
        own_bytes: address space in use before the task.

    Raises:
        UnconfinedError: a required measure is not in force.
    """
    measures = [Measure("group", True), Measure("environment", True), *host.measures]
    _own_environment(folder)
    os.chdir(folder)

    def asked(name: Name, act: Callable[[], str | None]) -> None:
        _try(measures, confinement.off, name, act)

    if in_pid_namespace:
        asked("processes", _mount_proc)
    else:
        measures.append(Measure("processes", False, host.why_no_pid_namespace or _LEFT_OUT))
    asked("limits", lambda: _limit(timeout_s, memory_bytes))
    if confinement.device:
        measures.append(Measure("address space", False, "a GPU's driver reserves more than any"))
    else:
        asked("address space", lambda: _limit_address_space(memory_bytes, own_bytes))
    measures.append(Measure("memory watch", True, f"{memory_bytes >> 20} MiB resident"))
    if uid is not None:
        asked("user", lambda: linux.become(uid, keep_reading=True))
    else:
        linux.drop_capabilities()
        measures.append(Measure("user", True, f"uid {os.getuid()}, not root, without capabilities"))
    linux.set_parent_death_signal(signal.SIGKILL)  # a change of user id clears it
    measures.append(Measure("parent death", True))
    asked("no new privileges", linux.forbid_new_privileges)
    if "files" in confinement.off:
        measures.append(Measure("files", False, _LEFT_OUT))
        measures.append(Measure("signals", False, _LEFT_OUT))
    else:
        measures += _landlock(confinement, host, folder)
    asked("system calls", linux.filter_system_calls)
    off = {m.name: m for m in measures if not m.in_force}
    missing = [str(off[name]) for name in confinement.required if name in off]
    if missing:
        raise UnconfinedError("; ".join(missing))
    return measures


def _own_environment(folder: Path) -> None:
    own = str(folder)
    os.environ.update(
        HOME=own,
        TMPDIR=own,
        XDG_CACHE_HOME=f"{own}/cache",
        XDG_CONFIG_HOME=f"{own}/config",
        TRITON_HOME=own,
        TRITON_CACHE_DIR=f"{own}/triton-cache",
        TORCHINDUCTOR_CACHE_DIR=f"{own}/inductor-cache",
        CUDA_CACHE_PATH=f"{own}/cuda-cache",
        NEO_CACHE_DIR=f"{own}/neo-cache",
        SYCL_CACHE_DIR=f"{own}/sycl-cache",
    )
    os.environ.pop("USER", None)


def _mount_proc() -> str:
    linux.mount_own_proc()
    return "a PID namespace with its own /proc"


def _limit(timeout_s: float, memory_bytes: int) -> str:
    cpu = int(timeout_s * (os.cpu_count() or 1)) + 5
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_FSIZE: memory_bytes,
        resource.RLIMIT_NOFILE: LARGEST_OPEN_FILE_COUNT,
        resource.RLIMIT_NPROC: LARGEST_PROCESS_COUNT,
    }
    for kind, most in wanted.items():
        _, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    return (
        f"{cpu} s of CPU, {LARGEST_PROCESS_COUNT} processes, {LARGEST_OPEN_FILE_COUNT} files, "
        f"{memory_bytes >> 20} MiB a file, no core"
    )


def _limit_address_space(memory_bytes: int, own_bytes: int) -> str:
    # The watcher ends a child by its resident size; this only stops a single huge
    # reservation between two looks.
    space = own_bytes + max(2 * memory_bytes, LARGEST_RESERVATION_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    return f"{space >> 30} GiB"


def _landlock(confinement: Confinement, host: Host, folder: Path) -> list[Measure]:
    try:
        version = linux.landlock_version()
        devices = [f"/dev/{name}" for name in _USABLE_DEVICES]
        if confinement.device:
            devices.append("/proc/self/task")  # CUDA's driver names its threads there, or fails
            devices += [
                entry.path
                for entry in os.scandir("/dev")
                if entry.name.startswith("nvidia") or entry.name in _GPU_DEVICES
            ]
        linux.restrict_files(
            version,
            readable=[*host.readable, *confinement.readable],
            devices=devices,
            writable=[str(folder), *confinement.writable],
        )
    except OSError as error:
        why = f"no Landlock: {_why(error)}"
        return [Measure("files", False, why), Measure("signals", False, why)]
    scoped = version >= linux.LANDLOCK_SCOPES_VERSION
    return [
        Measure("files", True, f"Landlock {version}"),
        Measure("signals", scoped, f"Landlock {version}" + ("" if scoped else ", needs 6")),
    ]


def _try(
    measures: list[Measure], off: Sequence[Name], name: Name, act: Callable[[], str | None]
) -> None:
    if name in off:
        measures.append(Measure(name, False, _LEFT_OUT))
        return
    try:
        measures.append(Measure(name, True, act() or ""))
    except (OSError, ValueError) as error:
        measures.append(Measure(name, False, _why(error)))


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
