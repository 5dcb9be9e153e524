"""clang with the headers of its LLVM and MLIR, for the passes as a plugin of upstream's Triton.

`python -m xesmith.toolchain.clang` installs them, once, and prints their folder (make
triton-plugin). They come from Debian's archive like the native tools and run beside their own C
library; headers, libraries and linker of the programs that clang builds are the machine's.
"""

from __future__ import annotations

import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path

from xesmith.errors import XesmithError
from xesmith.toolchain import debian, layout
from xesmith.toolchain.layout import Say
from xesmith.toolchain.pins import load_pins

#: relative to the install, which may be moved; -B: the machine's linker, not the unpacked one
_WRAPPER = """\
#!/bin/sh
top=$(cd "$(dirname "$0")/.." && pwd -P) || exit 1
lib="$top/usr/lib/x86_64-linux-gnu"
llvm="$top/usr/lib/llvm-23"
exec "$lib/ld-linux-x86-64.so.2" --library-path "$lib:$llvm/lib" "$llvm/bin/clang" \\
  --driver-mode=g++ -no-canonical-prefixes -resource-dir "$llvm/lib/clang/23" -B/usr/bin "$@"
"""


def install(say: Say) -> Path:
    """The folder with `bin/clang++` and, under `usr`, the unpacked packages.

    Raises:
        ToolchainError: not Debian-like, no mirror answers, a hash or signature is wrong.
    """
    root = layout.toolchain_root()
    with layout.locked(root, say):
        there = layout.installed(root, layout.CLANG)
        if there is not None and (there / layout.MANIFEST).is_file():
            return there
        archives = debian.fetch(
            root / layout.DOWNLOADS / layout.CLANG, say, pin=load_pins().triton_plugin
        )
        folder = layout.new_folder(root, layout.CLANG)
        try:
            say("unpacking")
            debian.unpack(archives, folder)
            for library in (folder / "usr" / "lib").rglob("*.a"):
                library.unlink()  # half of the whole; a plugin links none
            wrapper = folder / "bin" / "clang++"
            wrapper.parent.mkdir()
            wrapper.write_text(_WRAPPER, "utf-8")
            wrapper.chmod(0o755)
            layout.write_manifest(
                folder,
                {
                    "packages": {archive.package: archive.version for archive, _ in archives},
                    "sha256": {archive.file: archive.sha256 for archive, _ in archives},
                    "installed_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                },
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        layout.publish(root, layout.CLANG, folder)
        return root / layout.CLANG


def main() -> int:
    try:
        print(install(lambda step: print(step, file=sys.stderr)))
    except XesmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
