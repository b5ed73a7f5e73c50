"""manifest.json: what a saved manifold is, sealed with a checksum of its own."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import METHODS, Method, method_named

MANIFEST = "manifest.json"
FORMAT = "kinrank manifold"
VERSION = 2
KEYS = {"format", "version", "kinrank", "method", "parameters", "facts", "data", "arrays", "sha256"}


def manifest_of(snapshot: Snapshot, data: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Everything but the seal; a ValueError for a method that `load` would not find."""
    method = snapshot.method
    if METHODS.get(method.name) is not type(method):
        raise ValueError(
            f"a manifold of {type(method).__name__} can be searched but not saved: it is not one of kinrank.METHODS, "
            "by whose names saved manifolds are loaded"
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "kinrank": installed_version(),
        "method": method.name,
        "parameters": {declared.name: getattr(method, declared.name) for declared in method.parameters()},
        "facts": snapshot.facts,
        "data": data,
        "arrays": arrays,
    }


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
    try:
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"{folder} is not a saved manifold: it has no {MANIFEST}; its first save may have been interrupted"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path} is truncated or no JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{path} is not the manifest of a kinrank manifold")
    version = manifest.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ValueError(
            f"{folder} was written by kinrank {manifest.get('kinrank')} in format {version}, newer than format "
            f"{VERSION} of this version ({installed_version()}); upgrade kinrank, or build the manifold again"
        )
    if version < VERSION:
        raise ValueError(
            f"{folder} was written by an earlier kinrank in format {version}, which this version cannot read; "
            "build the manifold again"
        )
    if set(manifest) != KEYS or sealed(manifest) != manifest:
        raise ValueError(f"{path} was altered: its checksum differs; save the manifold again")
    return manifest


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
    try:
        return metadata.version("kinrank")
    except metadata.PackageNotFoundError:
        return "unknown"
