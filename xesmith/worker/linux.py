"""The system calls behind `confinement`, which Python's library has not (before 3.12).

Each function raises OSError where the kernel refuses. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
from collections.abc import Iterable

#: users of tasks begin here, where no account is; and how many there are for each server
_FIRST_UID = 1 << 30
_UIDS_A_SERVER = 1 << 10
#: of a container that has few users, the last ones
_FEW_UIDS = 1 << 12

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWTIME = 0x00000080

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_SECUREBITS = 28
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE, _PR_CAP_AMBIENT_CLEAR_ALL = 2, 4
_CAP_DAC_READ_SEARCH = 2
_SECBIT_NO_SETUID_FIXUP, _SECBIT_NO_SETUID_FIXUP_LOCKED = 1 << 2, 1 << 3
_CAPABILITY_VERSION_3 = 0x20080522

#: the same numbers on every architecture
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_SCOPES_VERSION = 6
_READ_FILE, _READ_DIR, _EXECUTE, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 0, 1 << 1
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
#: rights that exist, by version of the interface: all up to that bit
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_FOR_FILES = _READ_FILE | _EXECUTE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE
_TCP_RIGHTS_VERSION, _TCP_RIGHTS = 4, 0b11
_SCOPES = 0b11  # abstract sockets, signals
_MAKES_DEVICES = 1 << 6 | 1 << 11  # character, block


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, *values: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(option, *padded), f"prctl {option}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def set_namespace(descriptor: int, kind: int) -> None:
    _check(_libc.setns(descriptor, kind), "setns")


def enter_pid_namespace() -> None:
    """Goes on in a child that is the first process of a PID namespace, with its own /proc.

    The process that called waits for it and ends as it does. A user who is not root can make
    further PID namespaces only below one of his own.
    """
    trial = os.fork()  # there is no way back from an unshare that ends in a mount refused
    if trial == 0:
        try:
            unshare(CLONE_NEWPID)
            inner = os.fork()
            if inner == 0:
                mount_own_proc()
                os._exit(0)
            os._exit(os.WEXITSTATUS(os.waitpid(inner, 0)[1]))
        except OSError as error:
            os._exit(error.errno or errno.EPERM)
    number = os.WEXITSTATUS(os.waitpid(trial, 0)[1])
    if number:
        raise OSError(number, os.strerror(number))
    unshare(CLONE_NEWPID)
    child = os.fork()
    if child:
        os.closerange(0, 1 << 20)
        _, status = os.waitpid(child, 0)
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
    set_parent_death_signal(signal.SIGKILL)
    mount_own_proc()


def own_pid_namespace() -> int:
    """A descriptor of this process's own, after trying that one can come back to it."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        set_namespace(own, CLONE_NEWPID)  # needs what coming back will need
    except OSError:
        os.close(own)
        raise
    return own


def enter_user_namespace() -> str:
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return f"uid {uid} alone"


def enter_network_namespace() -> str:
    """No interface but a loopback that is down; no System V or POSIX queues of others."""
    unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
    return "a namespace without interfaces"


def mount_own_proc() -> None:
    unshare(CLONE_NEWNS)
    _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE)
    _mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int) -> None:
    _check(
        _libc.mount(source, target, kind, ctypes.c_ulong(flags), None), f"mount {target.decode()}"
    )


def set_parent_death_signal(number: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, number)


def forbid_new_privileges() -> str:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    return ""


def become(uid: int, *, keep_reading: bool) -> str:
    """Another user, for good. `keep_reading`: root's files stay readable (Landlock says which),
    also to the programs that are started, since Python itself may lie under /root."""
    # Else access(2) answers without the capability that open(2) has, and gcc, which asks it of
    # TMPDIR, writes to /tmp.
    _prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP | _SECBIT_NO_SETUID_FIXUP_LOCKED)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kept = 1 << _CAP_DAC_READ_SEARCH if keep_reading else 0
    _set_capabilities(kept)
    if kept:
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)
    # A change of user id makes a process undumpable, and its own /proc/self then root's.
    _prctl(_PR_SET_DUMPABLE, 1)
    return f"uid {uid}" + (", which may read what root may" if kept else "")


def user_of_task(number: int) -> int:
    """The user id of this server's task of that number, which no other task has at the time.

    The kernel counts processes by user: with one for all, a task that starts processes without
    end would take them from every other.
    """
    own = os.getpid() % (1 << 20) * _UIDS_A_SERVER + number % _UIDS_A_SERVER
    with open("/proc/self/uid_map") as file:
        ranges = [[int(word) for word in line.split()] for line in file]
    end = max(first + count for first, _, count in ranges)
    if end > 2 * _FIRST_UID:
        return _FIRST_UID + own
    few = min(_FEW_UIDS, end - 1)
    return end - few + own % few


def give(folder: os.PathLike[str], uid: int) -> None:
    """Makes a folder that of a task's user."""
    os.chown(folder, uid, uid)


def drop_capabilities() -> None:
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _set_capabilities(0)
    _prctl(_PR_SET_DUMPABLE, 1)


def _set_capabilities(kept: int) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack("=6I", kept, kept, kept, 0, 0, 0)
    _check(_libc.capset(header, data), "capset")


def landlock_version() -> int:
    return _check(
        _libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1),
        "landlock_create_ruleset",
    )


def restrict_files(
    version: int, *, readable: Iterable[str], devices: Iterable[str], writable: Iterable[str]
) -> None:
    """From now on nothing else is read, written or run, no TCP port is bound or connected to.

    Paths that do not exist are left out. Needs `forbid_new_privileges` before.
    """
    rights = _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= version)]
    tcp = _TCP_RIGHTS if version >= _TCP_RIGHTS_VERSION else 0
    scopes = _SCOPES if version >= LANDLOCK_SCOPES_VERSION else 0
    sizes = {1: 8, _TCP_RIGHTS_VERSION: 16, LANDLOCK_SCOPES_VERSION: 24}
    size = sizes[max(known for known in sizes if known <= version)]
    handled = struct.pack("=3Q", rights, tcp, scopes)[:size]
    ruleset = _check(
        _libc.syscall(_LANDLOCK_CREATE_RULESET, handled, ctypes.c_size_t(size), 0),
        "landlock_create_ruleset",
    )
    reading = _READ_FILE | _READ_DIR | _EXECUTE
    using = _READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEVICE | _TRUNCATE
    try:
        for paths, wanted in (
            (readable, reading),
            (devices, using),
            (writable, rights & ~_MAKES_DEVICES & ~_IOCTL_DEVICE),
        ):
            for path in paths:
                _allow(ruleset, path, wanted & rights)
        _check(
            _libc.syscall(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), 0),
            "landlock_restrict_self",
        )
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _FOR_FILES
        rule = struct.pack("=Qi", rights, place)
        _check(
            _libc.syscall(_LANDLOCK_ADD_RULE, ctypes.c_int(ruleset), 1, rule, 0),
            "landlock_add_rule",
        )
    finally:
        os.close(place)


#: x86_64 numbers of calls that no kernel's work needs
_DENIED = (
    (101, "ptrace"),
    (103, "syslog"),
    (135, "personality"),
    (155, "pivot_root"),
    (159, "adjtimex"),
    (161, "chroot"),
    (163, "acct"),
    (164, "settimeofday"),
    (165, "mount"),
    (166, "umount2"),
    (167, "swapon"),
    (168, "swapoff"),
    (169, "reboot"),
    (172, "iopl"),
    (173, "ioperm"),
    (175, "init_module"),
    (176, "delete_module"),
    (227, "clock_settime"),
    (246, "kexec_load"),
    (248, "add_key"),
    (249, "request_key"),
    (250, "keyctl"),
    (272, "unshare"),
    (298, "perf_event_open"),
    (300, "fanotify_init"),
    (304, "open_by_handle_at"),
    (305, "clock_adjtime"),
    (308, "setns"),
    (310, "process_vm_readv"),
    (311, "process_vm_writev"),
    (313, "finit_module"),
    (320, "kexec_file_load"),
    (321, "bpf"),
    (323, "userfaultfd"),
    (425, "io_uring_setup"),
    (426, "io_uring_enter"),
    (427, "io_uring_register"),
    (428, "open_tree"),
    (429, "move_mount"),
    (430, "fsopen"),
    (432, "fsmount"),
    (438, "pidfd_getfd"),
    (442, "mount_setattr"),
)
_SOCKET, _CLONE, _CLONE3 = 41, 56, 435
_AF_UNIX = 1
_AUDIT_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_NAMESPACES = (
    CLONE_NEWNS
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
    | CLONE_NEWCGROUP
)


def filter_system_calls() -> str:
    """Refuses (EPERM) sockets other than local ones, tracing, mounts, namespaces and the like.

    Needs `forbid_new_privileges` before.
    """
    machine = platform.machine()
    if machine != "x86_64":
        raise OSError(errno.ENOSYS, f"no list of system calls for {machine}")
    program = _filter()
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    filter_of = ctypes.create_string_buffer(header, len(header))
    _prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(filter_of))
    return f"{len(_DENIED)} calls, and sockets beyond this machine"


def _filter() -> bytes:
    refuse = _ERRNO | errno.EPERM

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_true, if_false, value)

    steps = [
        step(_LOAD, _ARCH_AT),
        step(_EQUAL, _AUDIT_ARCH_X86_64, 1, 0),
        step(_RETURN, _KILL),
        step(_LOAD, _NUMBER_AT),
        step(_AT_LEAST, _X32_BIT, 0, 1),
        step(_RETURN, _KILL),
        # The C library falls back to clone, whose flags can be seen.
        step(_EQUAL, _CLONE3, 0, 1),
        step(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for number, _ in _DENIED:
        steps += [step(_EQUAL, number, 0, 1), step(_RETURN, refuse)]
    steps += [
        step(_EQUAL, _SOCKET, 0, 4),
        step(_LOAD, _FIRST_ARGUMENT_AT),
        step(_EQUAL, _AF_UNIX, 1, 0),
        step(_RETURN, refuse),
        step(_RETURN, _ALLOW),
        step(_EQUAL, _CLONE, 0, 3),
        step(_LOAD, _FIRST_ARGUMENT_AT),
        step(_ANY_BIT, _NAMESPACES, 0, 1),
        step(_RETURN, refuse),
        step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)
