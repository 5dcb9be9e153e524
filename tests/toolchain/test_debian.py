"""The install from Debian's packages: which mirror, what is checked, what is said elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.errors import ToolchainError
from xesmith.toolchain import debian
from xesmith.toolchain.pins import NativePin, load_pins

# Addresses of no real host: ".example" is reserved.
INDEX = """\
http://security.example/debian-security/\tDebian\tDebian-Security
http://mirror.example/debian/\tDebian\tDebian
http://mirror.example/debian/\tDebian\tDebian
http://other.example/debian/\tDebian\tDebian Backports
http://packages.example/apt/\tVendor\tVendor
"""


def quiet(_: str) -> None:
    return


def apt(script: Callable[[str, str], Path], known: str, configured: str = "") -> None:
    """An apt-get that answers `indextargets` alone."""
    path = script("apt-get", "")
    files = {"known": known, "configured": configured}
    for name, text in files.items():
        path.with_name(f"{name}.txt").write_text(text)
    folder = path.parent
    path.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *--no-release-info*) exec /bin/cat {folder}/configured.txt ;;\n'
        f"indextargets*) exec /bin/cat {folder}/known.txt ;; esac\nexit 100\n"
    )


def release(monkeypatch: pytest.MonkeyPatch, **fields: str) -> None:
    monkeypatch.setattr(debian, "os_release", lambda: fields)


class TestMirrors:
    def test_the_archive_is_told_by_its_origin(self, script: Callable[[str, str], Path]) -> None:
        apt(script, INDEX)
        assert debian.debian_mirrors() == ["http://mirror.example/debian/"]

    def test_a_fresh_machine_is_judged_by_its_sources(
        self, script: Callable[[str, str], Path]
    ) -> None:
        uris = (
            "http://security.example/debian-security/",
            "http://mirror.example/debian/",
            "mirror+file:/etc/apt/mirrors/debian.list",
            "http://mirror.example/ubuntu/",
        )
        apt(script, "", "".join(f"{uri}\t\t\n" for uri in uris))
        assert debian.debian_mirrors() == [uris[1], uris[2]]

    def test_ubuntu_has_none(self, script: Callable[[str, str], Path]) -> None:
        apt(script, "http://mirror.example/ubuntu/\tUbuntu\tUbuntu\n")
        assert debian.debian_mirrors() == []

    def test_without_apt_there_is_none(self, bare_path: Path) -> None:
        assert bare_path.is_dir()
        assert debian.debian_mirrors() == []


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({"ID": "ubuntu", "ID_LIKE": "debian"}, "sudo apt-get install intel-ocloc spirv-tools"),
        ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "sudo apt-get install intel-ocloc"),
        ({"ID": "fedora"}, "sudo dnf install intel-ocloc spirv-tools"),
        ({"ID": "arch"}, "sudo pacman -S intel-compute-runtime spirv-tools"),
        ({"ID": "manjaro", "ID_LIKE": "arch"}, "sudo pacman -S intel-compute-runtime"),
        ({"ID": "nixos"}, "XESMITH_OCLOC"),
    ],
)
def test_elsewhere_the_distributions_own_package_is_named(
    bare_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], command: str
) -> None:
    release(monkeypatch, **fields, PRETTY_NAME="Some Linux 1")
    with pytest.raises(ToolchainError, match="Some Linux 1 has no Debian mirror") as caught:
        debian.fetch(bare_path / "downloads", quiet)
    assert command in str(caught.value.remedy)


def test_other_processors_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(ToolchainError, match="this machine is aarch64"):
        debian.fetch(tmp_path, quiet)


def test_missing_keys_name_their_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(debian, "_KEYRINGS", tmp_path)
    with pytest.raises(ToolchainError, match="keys") as caught:
        debian.fetch(tmp_path / "downloads", quiet)
    assert caught.value.remedy == "sudo apt-get install debian-archive-keyring"


def test_the_plan_is_read_with_sizes_and_hashes() -> None:
    text = (
        f"'http://mirror.example/z/zlib1g_1.3_amd64.deb' zlib1g_1%3a1.3-2_amd64.deb 77 "
        f"SHA256:{'a' * 64}\n"
    )
    (archive,) = debian._archives(text)
    assert (archive.package, archive.version) == ("zlib1g", "1:1.3-2")
    assert (archive.size_bytes, archive.sha256) == (77, "a" * 64)


def test_os_release_is_read(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('PRETTY_NAME="Some Linux 1"\nID=some\nID_LIKE="a b"\n')
    assert debian.os_release(file) == {
        "PRETTY_NAME": "Some Linux 1",
        "ID": "some",
        "ID_LIKE": "a b",
    }


class Archive:
    """A Debian archive in a folder, without a signature."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"file:{folder}/debian/"
        binary = folder / "debian" / "dists" / "sid" / "main" / "binary-amd64"
        binary.mkdir(parents=True)
        (binary / "Packages").write_text(
            "Package: intel-ocloc\nVersion: 1\nArchitecture: amd64\nMaintainer: x <x@y.example>\n"
            f"Filename: pool/intel-ocloc_1_amd64.deb\nSize: 3\nSHA256: {'0' * 64}\n"
            "Description: x\n"
        )
        data = (binary / "Packages").read_bytes()
        (binary.parents[1] / "Release").write_text(
            "Origin: Debian\nLabel: Debian\nSuite: sid\nCodename: sid\n"
            "Date: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: amd64\nComponents: main\n"
            "SHA256:\n"
            f" {hashlib.sha256(data).hexdigest()} {len(data)} main/binary-amd64/Packages\n"
        )


def test_an_archive_without_a_signature_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive = Archive(tmp_path)
    monkeypatch.setattr(debian, "debian_mirrors", lambda: [archive.uri])
    monkeypatch.setattr(debian, "_KEYRINGS", tmp_path)
    (tmp_path / "debian-archive-keyring.gpg").write_bytes(b"")
    pin = NativePin.model_validate(
        {**load_pins().native.model_dump(), "packages": ("intel-ocloc",)}
    )
    with pytest.raises(ToolchainError, match=r"not signed|could not get") as caught:
        debian.fetch(tmp_path / "downloads", quiet, pin=pin)
    assert "not signed" in caught.value.what
    assert list((tmp_path / "downloads").rglob("*.deb")) == []
