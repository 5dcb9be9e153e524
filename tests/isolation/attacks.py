"""Ways out of a worker's child, as tasks: each gives "in" and what it got, or "out" and why not."""

import contextlib
import ctypes
import gc
import json
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17


def _tried(act):
    try:
        return ["in", act()]
    except (OSError, MemoryError) as error:
        return ["out", f"{type(error).__name__}: {error}"]


def writes(arguments, folder):
    return _tried(lambda: Path(arguments["path"]).write_text("written"))


def reads(arguments, folder):
    return _tried(lambda: Path(arguments["path"]).read_bytes().decode(errors="replace"))


def connects(arguments, folder):
    def act():
        with socket.create_connection(("127.0.0.1", arguments["port"]), timeout=5) as end:
            return end.recv(5).decode()

    return _tried(act)


def kills(arguments, folder):
    return _tried(lambda: os.kill(arguments["pid"], 9))


def traces(arguments, folder):
    def act():
        pid = arguments["pid"]
        if _libc.ptrace(_PTRACE_ATTACH, pid, None, None) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")
        os.waitpid(pid, 0x40000000)
        _libc.ptrace(_PTRACE_DETACH, pid, None, None)

    return _tried(act)


def reads_memory(arguments, folder):
    def act():
        with open(f"/proc/{arguments['pid']}/mem", "rb") as memory:
            memory.seek(arguments["address"])
            return memory.read(6).decode()

    return _tried(act)


def lists_processes(arguments, folder):
    return ["in", sorted(int(name) for name in os.listdir("/proc") if name.isdigit())]


def mounts(arguments, folder):
    def act():
        if _libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, None) < 0:
            raise OSError(ctypes.get_errno(), "mount")

    return _tried(act)


def forks(arguments, folder):
    children = []

    def act():
        for _ in range(arguments["count"]):
            pid = os.fork()
            if pid == 0:
                time.sleep(1000)
            children.append(pid)

    ended = _tried(act)
    time.sleep(arguments.get("holds_seconds", 0))
    for pid in children:
        os.kill(pid, 9)
    return ended


def reserves(arguments, folder):
    return _tried(lambda: len(mmap.mmap(-1, arguments["bytes"], flags=mmap.MAP_PRIVATE | 0x4000)))


def fills_a_file(arguments, folder):
    def act():
        with open(folder / "large", "wb") as file:
            file.truncate(arguments["bytes"])

    return _tried(act)


def leaves_in_a_thread(arguments, folder):
    threading.Thread(target=os._exit, args=(0,)).start()
    time.sleep(1000)


def leaves_at_once(arguments, folder):
    sys.exit(0)


def leaves_a_daemon(arguments, folder):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(os.devnull, "w") as null:
                subprocess.Popen(
                    ["sleep", arguments["seconds"]], stdout=null, start_new_session=True
                )
            (folder / "daemon").write_text("there")
        os._exit(0)
    os.wait()
    while not (folder / "daemon").exists():
        time.sleep(0.01)
    if arguments["stays"]:
        time.sleep(1000)
    return "done"


def writes_to_every_descriptor(arguments, folder):
    forged = json.dumps({"status": "ok", "value": "forged", "measures": []}).encode()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            os.pwrite(int(name), forged, 0)
    with contextlib.suppress(OSError):
        print(forged.decode(), flush=True)
    os._exit(0)


def answers_twice(arguments, folder, channel):
    """Once before it is asked."""
    channel.send({"word": "guessed", "message": "forged"})
    channel.serve(lambda message: message)


def answers(arguments, folder, channel):
    def handler(message):
        if message == "leave":
            os._exit(3)
        if message == "sleep":
            time.sleep(1000)
        return {"got": message}

    channel.serve(handler)
    return "no more questions"


def beats(arguments, folder, channel):
    """A mark every millisecond, for ever, once it is asked anything."""

    def handler(_):
        with open(folder / "beats", "a") as file:
            while True:
                print(end=".", file=file, flush=True)
                time.sleep(0.001)

    channel.serve(handler)


def links(arguments, folder):
    (folder / "link").symlink_to(arguments["to"])
    os.mkfifo(folder / "pipe")
    os.unlink(folder / "stdout")
    (folder / "stdout").symlink_to(arguments["to"])
    (folder / "plain").write_text("plain")


def identity(arguments, folder):
    left = [name for name in os.environ if "KEY" in name or "proxy" in name.lower()]
    return {
        "uid": os.getuid(),
        "home": os.environ["HOME"],
        "cwd": os.getcwd(),
        "left": left,
        "caches": [value for name, value in os.environ.items() if "CACHE" in name],
        "objects": len(gc.get_objects()) > 0,
    }


def uses_device(arguments, folder):
    """No attack: what a task needs must work under all that holds it."""
    import torch

    kind = arguments["kind"]
    x = torch.ones((256, 256), device=kind)
    return float((x @ x).sum())


def hangs_device(arguments, folder):
    """A kernel that goes on for a quarter of an hour."""
    import torch

    torch.cuda._sleep(arguments["cycles"])
    torch.cuda.synchronize()


def compiles(arguments, folder):
    """What Triton does at a launch: its launcher's C source becomes a module, in TMPDIR."""
    source = Path(folder) / "launcher.c"
    source.write_text("int launch(void) { return 7; }\n")
    library = Path(folder) / "launcher.so"
    command = [os.environ.get("CC", "gcc"), source, "-O1", "-shared", "-fPIC", "-o", library]
    done = subprocess.run([*command, "-v"], capture_output=True, text=True)
    return [done.returncode, ctypes.CDLL(str(library)).launch() if library.exists() else None]


def names_a_thread(arguments, folder):
    """What CUDA's driver does, which takes a refusal for a fault of the system."""
    thread = threading.get_native_id()
    return _tried(lambda: Path(f"/proc/self/task/{thread}/comm").write_text("named"))
