"""Where the asset folders (llm_stages, knowledge, bench, third_party) lie.

A checkout holds them beside the package; a wheel carries copies inside the package.
"""

from __future__ import annotations

from pathlib import Path

from xesmith.errors import ToolchainError

_PACKAGE = Path(__file__).resolve().parent


def asset_folder(name: str) -> Path:
    """The folder `name` of a checkout, else the copy inside the installed package.

    Raises:
        ToolchainError: neither exists, so the installation is incomplete.
    """
    for folder in (_PACKAGE.parent / name, _PACKAGE / "assets" / name):
        # In site-packages a foreign distribution may own a folder of the same name.
        if folder.is_dir() and (folder.parent != _PACKAGE.parent or _is_checkout()):
            return folder
    raise ToolchainError(
        f"the asset folder '{name}' is missing",
        where=str(_PACKAGE),
        remedy="reinstall xesmith (pip install --force-reinstall xesmith)",
    )


def _is_checkout() -> bool:
    return (_PACKAGE.parent / "pyproject.toml").is_file()
