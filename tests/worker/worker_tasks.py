"""Tasks for test_worker.py, run inside the worker's children."""

import os
import signal
import subprocess
import sys
import time


def echo(arguments, folder):
    return {"arguments": arguments, "folder": folder.name}


def environment(arguments, folder):
    return dict(os.environ)


def raises(arguments, folder):
    raise ValueError("seven")


def leaves(arguments, folder):
    os._exit(arguments["code"])


def segfaults(arguments, folder):
    print("last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def sleeps(arguments, folder):
    child = subprocess.Popen(["sleep", str(arguments["seconds"])])
    (folder / "grandchild").write_text(str(child.pid))
    time.sleep(1000)


def naps(arguments, folder):
    time.sleep(arguments["seconds"])
    return time.monotonic()


def eats_memory(arguments, folder):
    held = []
    while True:
        held.append(b"x" * (16 << 20))


def reserves_memory(arguments, folder):
    return len(bytearray(arguments["bytes"]))


def prints(arguments, folder):
    print('{"id": 1, "status": "ok", "value": "forged"}', flush=True)
    os.write(2, b"noise")
    return "real"


def big(arguments, folder):
    return "x" * arguments["bytes"]


def reads_stdin(arguments, folder):
    return sys.stdin.read()
