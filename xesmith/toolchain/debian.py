"""Tools from Debian's packages, without root and without touching the system.

apt works on a state of its own: its lists, cache, sources and an empty dpkg status lie under
the downloads folder. apt checks the archive's signature and so the hash of every index; the
hash of every package is checked here again before it is unpacked, since apt takes a file of
the right size from its cache without reading it. The packages are unpacked beside their own C
library, so that they run where the machine's is older.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xesmith.errors import ToolchainError
from xesmith.toolchain.layout import Say
from xesmith.toolchain.pins import DebianPin, DistributionPackage, load_pins

_UPDATE_TIMEOUT_SECONDS = 600
_PLAN_TIMEOUT_SECONDS = 60
_DOWNLOAD_TIMEOUT_SECONDS = 3600
_KEYRINGS = Path("/usr/share/keyrings")
_PROGRAMS = ("apt-get", "dpkg-deb")


@dataclass(frozen=True)
class Archive:
    """One package to download: its file in apt's cache and what it must be."""

    file: str
    size_bytes: int
    sha256: str
    url: str

    @property
    def package(self) -> str:
        return self.file.partition("_")[0]

    @property
    def version(self) -> str:
        """Without the epoch's escape: "1%3a1.3.1-2" -> "1:1.3.1-2"."""
        return self.file.split("_")[1].replace("%3a", ":")


def fetch(downloads: Path, say: Say, *, pin: DebianPin | None = None) -> list[tuple[Archive, Path]]:
    """Downloads the pinned packages and all that they need; returns each verified file.

    What an earlier, interrupted run has downloaded is used again where its hash is right.

    Raises:
        ToolchainError: not Debian-like, no mirror answers, a hash or signature is wrong.
    """
    pin = pin or load_pins().native
    mirrors = _require_host(pin)
    failures: list[str] = []
    for index, mirror in enumerate(mirrors):
        try:
            return _fetch_from(mirror, downloads, say, pin)
        except _AptError as error:
            failures.append(error.reason)
            if index + 1 < len(mirrors):
                say("that mirror does not serve it; trying the next one")
    raise ToolchainError(
        f"apt could not get {', '.join(pin.packages)}: {failures[-1]}",
        where=f"apt, suite {pin.suite}",
        remedy="check the network and apt's sources ('apt-get update' must work), "
        "then run this command again: it goes on where it stopped",
    )


def unpack(archives: list[tuple[Archive, Path]], prefix: Path) -> None:
    """Unpacks each package into `prefix`."""
    for archive, path in archives:
        done = subprocess.run(
            ["dpkg-deb", "-x", str(path), str(prefix)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise ToolchainError(
                f"the package {archive.package} cannot be unpacked: {done.stderr.strip()}",
                where=str(path),
                remedy="free disk space there, or set XESMITH_TOOLCHAIN_DIR to a larger disk",
            )


def debian_mirrors() -> list[str]:
    """The addresses of Debian's archive in this machine's own apt sources, in their order."""
    # Only lists that were downloaded tell their origin; a fresh machine has none.
    known = _index_targets([], "$(REPO_URI)\t$(ORIGIN)\t$(LABEL)")
    mirrors = [uri for uri, origin, label in known if (origin, label) == ("Debian", "Debian")]
    if not mirrors:
        configured = _index_targets(["--no-release-info"], "$(REPO_URI)\t\t")
        mirrors = [uri for uri, _, _ in configured if _looks_like_debian(uri)]
    return list(dict.fromkeys(mirrors))


def no_mirror() -> ToolchainError:
    """The error for a machine whose package manager cannot reach Debian's archive."""
    release = os_release()
    title = release.get("PRETTY_NAME", "this system")
    own = own_package(release)
    newest = load_pins().native.newest_device
    if own is None:
        remedy = (
            f"put an ocloc that knows {newest} (Intel's compute-runtime releases, 26.27 does) and "
            "spirv-tools on PATH, or name the ocloc in XESMITH_OCLOC"
        )
    else:
        remedy = (
            f"{own.install} (if 'xesmith doctor' then says that it is too old for {newest}: take "
            "ocloc from Intel's compute-runtime releases)"
        )
    return ToolchainError(
        f"{title} has no Debian mirror among its package sources; the native tools are "
        "installed from there only",
        remedy=remedy,
    )


def own_package(release: Mapping[str, str]) -> DistributionPackage | None:
    """What this distribution, or one that it is like, calls its own ocloc."""
    packages = load_pins().distribution_packages
    for name in [release.get("ID", ""), *release.get("ID_LIKE", "").split()]:
        if name in packages:
            return packages[name]
    return None


def os_release(path: Path | None = None) -> dict[str, str]:
    """The fields of /etc/os-release; empty where there is none."""
    try:
        return dict(platform.freedesktop_os_release()) if path is None else _parse(path)
    except OSError:
        return {}


def _parse(path: Path) -> dict[str, str]:
    pairs = re.findall(r'^([A-Z_]+)="?(.*?)"?$', path.read_text("utf-8"), re.MULTILINE)
    return {str(key): str(value) for key, value in pairs}


class _AptError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _fetch_from(
    mirror: str, downloads: Path, say: Say, pin: DebianPin
) -> list[tuple[Archive, Path]]:
    config = _write_state(mirror, downloads, pin)
    say(f"reading the package lists of Debian {pin.suite}")
    _apt(config, ["update"], _UPDATE_TIMEOUT_SECONDS)
    install = ["--yes", "--no-install-recommends", "install", *pin.packages]
    # What lies in its cache already is left out of apt's plan: show it an empty one.
    plan = ["--option", f"Dir::Cache::archives={downloads}/plan", "--print-uris", "-qq"]
    archives = _archives(_apt(config, [*plan, *install], _PLAN_TIMEOUT_SECONDS))
    folder = downloads / "cache" / "archives"
    for archive in archives:
        path = folder / archive.file
        if path.is_file() and not _is(archive, path):
            path.unlink()
    missing = [a for a in archives if not (folder / a.file).is_file()]
    if missing:
        megabytes = sum(a.size_bytes for a in missing) / 1e6
        say(f"downloading {len(missing)} packages ({megabytes:.0f} MB)")
        _apt(config, ["--download-only", *install], _DOWNLOAD_TIMEOUT_SECONDS)
    for archive in archives:
        path = folder / archive.file
        if not path.is_file():
            raise _AptError(f"{archive.file} was not downloaded")
        if not _is(archive, path):
            path.unlink()
            raise _AptError(f"{archive.file} does not have the hash that the archive signed")
    wanted = {archive.file for archive in archives}
    for old in folder.glob("*.deb"):
        if old.name not in wanted:
            old.unlink()
    return [(archive, folder / archive.file) for archive in archives]


def _write_state(mirror: str, downloads: Path, pin: DebianPin) -> Path:
    """Makes apt's private state; returns its configuration file."""
    for name in ("lists/partial", "cache/archives/partial", "plan/partial", "log"):
        (downloads / name).mkdir(parents=True, exist_ok=True)
    (downloads / "status").write_text("", "utf-8")
    sources = downloads / "sources.list"
    sources.write_text(
        f"deb [arch={pin.architecture} signed-by={_keyring(pin)}] "
        f"{mirror} {pin.suite} {pin.component}\n",
        "utf-8",
    )
    config = downloads / "apt.conf"
    # Read after the machine's own configuration, whose proxies stay in force; its hooks, pins
    # and default release do not concern these packages.
    config.write_text(
        f"""\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Default-Release;
#clear APT::Architectures;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
APT::Architecture "{pin.architecture}";
APT::Architectures {{ "{pin.architecture}"; }};
APT::Install-Recommends "false";
APT::Get::List-Cleanup "false";
APT::Get::AllowUnauthenticated "false";
APT::Keep-Downloaded-Packages "true";
Acquire::AllowInsecureRepositories "false";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "{downloads}";
Dir::State::Lists "{downloads}/lists";
Dir::State::status "{downloads}/status";
Dir::State::extended_states "{downloads}/extended_states";
Dir::Cache "{downloads}/cache";
Dir::Cache::archives "{downloads}/cache/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Log "{downloads}/log";
Dir::Etc::SourceList "{sources}";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
""",
        "utf-8",
    )
    return config


def _apt(config: Path, arguments: list[str], timeout_seconds: int) -> str:
    """Runs apt-get on the private state; its stdout. Raises _AptError with apt's reason."""
    # A killed install must not leave an apt-get that holds the lock of the downloads.
    bound = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    try:
        done = subprocess.run(
            [*bound, "apt-get", f"--config-file={config}", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _AptError(f"apt-get did not end within {timeout_seconds} s") from error
    if done.returncode != 0:
        errors = [line[3:] for line in done.stderr.splitlines() if line.startswith("E: ")]
        raise _AptError("; ".join(errors[:3]) or f"apt-get ended with {done.returncode}")
    return done.stdout


def _archives(listing: str) -> list[Archive]:
    """Parses `apt-get --print-uris`: 'URL' FILE SIZE SHA256:HASH."""
    found = re.findall(r"^'([^']+)' (\S+\.deb) (\d+) SHA256:([0-9a-f]{64})$", listing, re.MULTILINE)
    if not found:
        raise _AptError("apt names no package to download")
    return [Archive(file, int(size), sha256, url) for url, file, size, sha256 in found]


def _is(archive: Archive, path: Path) -> bool:
    if path.stat().st_size != archive.size_bytes:
        return False
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == archive.sha256


def _require_host(pin: DebianPin) -> list[str]:
    """The mirrors to try; raises where this machine cannot install from Debian."""
    machine = platform.machine()
    if machine != "x86_64":
        raise ToolchainError(
            f"Intel's native compiler exists for x86-64 only; this machine is {machine}",
            remedy="run xesmith on an x86-64 Linux machine",
        )
    if any(shutil.which(program) is None for program in _PROGRAMS):
        raise no_mirror()
    mirrors = debian_mirrors()
    if not mirrors:
        raise no_mirror()
    _keyring(pin)
    return mirrors


def _keyring(pin: DebianPin) -> Path:
    for suffix in (".gpg", ".pgp"):
        path = _KEYRINGS / f"{pin.keyring}{suffix}"
        if path.is_file():
            return path
    raise ToolchainError(
        "the keys that Debian's archive is signed with are not on this machine",
        where=str(_KEYRINGS / f"{pin.keyring}.gpg"),
        remedy=f"sudo apt-get install {pin.keyring}",
    )


def _index_targets(flags: list[str], line: str) -> list[tuple[str, str, str]]:
    """The package indexes of apt's own sources, one (URI, origin, label) each."""
    if shutil.which("apt-get") is None:
        return []
    done = subprocess.run(
        ["apt-get", "indextargets", *flags, "--format", line, "Created-By: Packages"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    rows = [row.split("\t") for row in done.stdout.splitlines()]
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3 and row[0]]


def _looks_like_debian(uri: str) -> bool:
    """Judges an address whose Release file was never read: .../debian/, not its security."""
    tail = uri.rstrip("/").rpartition("/")[2]
    return tail in ("debian", "debian.list")
