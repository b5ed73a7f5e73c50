"""manifest.json: what a saved manifold is, sealed with a checksum of its own."""

from __future__ import annotations

import hashlib
import json
import reprlib
import sys
from pathlib import Path
from typing import Any

from kinrank.manifold.arrays import check_file
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import METHODS, Method, method_named

MANIFEST = "manifest.json"
FORMAT = "kinrank manifold"
PLAIN, VERSION = 3, 4  # without remembered queries, as kinrank 0.1.0 reads it, and with them
POSITION = (
    "logged"  # a number among the facts: the last change of the log beside the folder that is in it, see `beside`
)
KEYS = {
    *("format", "version", "kinrank", "generation", "method", "parameters", "store", "facts"),
    *("data", "arrays", "changes", "sha256"),
}


def manifest_of(
    snapshot: Snapshot,
    generation: int,
    data: str,
    arrays: dict[str, Any],
    changes: list[dict[str, Any]],
    position: int = 0,
) -> dict[str, Any]:
    """The manifest with its seal; a ValueError for a method that `load` would not find.

    Args:
        snapshot: the state after all changes.
        generation: how many times this folder was saved to.
        data: the name of the data folder.
        arrays: what is in it, before the changes.
        changes: the files of changes since, oldest first.
        position: the version of the last logged change that is in it; 0, and left out, where nothing was ever logged.
    """
    method = snapshot.method
    if METHODS.get(method.name) is not type(method):
        raise ValueError(
            f"a manifold of {type(method).__name__} can be searched but not saved: it is not one of kinrank.METHODS, "
            "by whose names saved manifolds are loaded"
        )
    manifest = {
        "format": FORMAT,
        "version": VERSION if snapshot.remembered.count else PLAIN,
        "kinrank": installed_version(),
        "generation": generation,
        "method": method.name,
        "parameters": {declared.name: getattr(method, declared.name) for declared in method.parameters()},
        "store": snapshot.built_over,
        "facts": snapshot.facts | ({POSITION: float(position)} if position else {}),
        "data": data,
        "arrays": arrays,
        "changes": changes,
    }
    return sealed(manifest)


def sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the checksum of its content."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return {**content, "sha256": hashlib.sha256(canonical).hexdigest()}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, or an error that says what is wrong with it."""
    path = folder / MANIFEST
    if not folder.exists():
        raise FileNotFoundError(f"{folder} is not there; give the folder that Manifold.save wrote")
    check_file(path)
    try:
        manifest = json.loads(path.read_bytes())
        unaltered = isinstance(manifest, dict) and sealed(manifest) == manifest  # may be nested too deeply for this
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"{folder} is not a saved manifold: it has no {MANIFEST}; its first save may have been interrupted"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is truncated or no JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{path} is not the manifest of a kinrank manifold")
    version = manifest.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ValueError(
            f"{folder} was written by kinrank {manifest.get('kinrank')} in format {version}, newer than format "
            f"{VERSION} of this version ({installed_version()}); upgrade kinrank, or build the manifold again"
        )
    if version < PLAIN:
        raise ValueError(
            f"{folder} was written by an earlier kinrank in format {version}, which this version cannot read; "
            "build the manifold again"
        )
    if set(manifest) != KEYS or not unaltered or not _fits(manifest):
        raise ValueError(f"{path} was altered: its checksum differs; save the manifold again")
    _check_fields(manifest, path)
    return manifest


def _fits(manifest: dict[str, Any]) -> bool:
    """Whether what is said of the saving itself is of the kinds that `manifest_of` writes."""
    entries = manifest["changes"]
    kinds = {"file": str, "count": int, "bytes": int, "sha256": str}
    return (
        isinstance(manifest["generation"], int)
        and isinstance(manifest["store"], str | None)
        and isinstance(entries, list)
        and all(isinstance(entry, dict) and {key: type(value) for key, value in entry.items()} == kinds
                for entry in entries)
    )  # fmt: skip


def _check_fields(manifest: dict[str, Any], path: Path) -> None:
    """A ValueError if the manifest does not say things in the way `manifest_of` says them."""
    entries, facts, given = manifest["arrays"], manifest["facts"], manifest["parameters"]
    kinds = {"dtype": str, "shape": list, "sha256": str}
    good = all(isinstance(manifest[name], str) for name in ("method", "data"))
    good = (
        good
        and all(isinstance(table, dict) for table in (entries, facts, given))
        and all(
            isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in kinds.items())
            for entry in entries.values()
        )
    )
    if not good:
        raise ValueError(f"{path} does not describe the manifold as kinrank does; build it again")
    numbers = {name: value for name, value in given.items() if isinstance(value, (int, float))}
    for name, value in {**numbers, **facts}.items():
        if not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise ValueError(f"{path}: {name} must be a finite number; it is {reprlib.repr(value)}")


def position_in(manifest: dict[str, Any]) -> int:
    """The version of the last logged change that a saved manifold holds; 0 where nothing was ever logged."""
    position = manifest["facts"].get(POSITION, 0)
    if not (0 <= position < 2**53 and position == int(position)):
        raise ValueError(f"{POSITION}={position} is not allowed; it counts changes")
    return int(position)


def method_in(manifest: dict[str, Any], folder: Path) -> Method:
    """The method with its parameters, rebuilt from their declarations; nothing is evaluated."""
    name, given = manifest["method"], manifest["parameters"]
    try:
        kind = method_named(str(name))
    except ValueError:
        raise ValueError(f"{folder} was built by the method {name!r}, which this version does not have") from None
    known = {declared.name for declared in kind.parameters()}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"{folder} has parameters that {kind.__name__} does not know: {', '.join(unknown)}")
    return kind(**given)


def installed_version() -> str:
    from importlib import metadata  # takes long to import, and only who writes needs it

    try:
        return metadata.version("kinrank")
    except metadata.PackageNotFoundError:
        return "unknown"
