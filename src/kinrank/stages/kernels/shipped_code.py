"""Machine code that comes with a wheel, compiled for a baseline processor that nearly every computer has.

`kinrank warmup --baseline` writes it to the folder `kinrank/machine_code`, and the build of a wheel packs that folder.
A manifest says what the code was compiled for and with, and holds a checksum of every file. If anything differs on this
computer, or a file is damaged, the code counts as missing, and kernels are compiled as without it.

Numba's files are pickles. Those of the wheel are part of the installed package and as trusted as its Python files.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

STAGES = Path(__file__).parents[1]
FOLDER = STAGES.parent / "machine_code"
MANIFEST = "manifest.json"
WRITE_VARIABLE = "KINRANK_WRITE_BASELINE"  # set by `kinrank warmup --baseline` for the processes that compile
X86_64_V3 = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"
BASELINES = {  # by machine: the name of the baseline processor in LLVM, and the features that it has
    "x86_64": ("x86-64-v3", frozenset(X86_64_V3.split())),
    "aarch64": ("generic", frozenset({"neon"})),
    "arm64": ("generic", frozenset({"neon"})),
}


def digest_sources() -> str:
    """Return a digest of the source of all kernels, which are spread over the package `kinrank.stages`."""
    texts = (path.read_bytes() for path in sorted(STAGES.rglob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


def describe_baseline() -> dict[str, str]:
    """Return what machine code depends on: the baseline processor, the system, and the versions involved."""
    return {
        "processor": BASELINES.get(platform.machine(), ("", frozenset()))[0],
        "system": f"{sys.platform} {platform.machine()}",
        "python": f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}",
        "numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "sources": digest_sources(),
    }


def write_manifest(folder: Path) -> None:
    """Describe the files of the folder, so that `read_checksums` accepts them."""
    files = {path.name: _digest(path) for path in sorted(folder.glob("*.nb?"))}
    text = json.dumps({"baseline": describe_baseline(), "files": files}, indent=1)
    (folder / MANIFEST).write_text(text + "\n", "utf-8")


@functools.cache
def read_checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of the files in the folder that this computer can use; none if they are for another one."""
    from llvmlite.binding import get_host_cpu_features

    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        if manifest["baseline"] != describe_baseline():
            return {}
        needed = BASELINES[platform.machine()][1]
        host = {name for name, present in get_host_cpu_features().items() if present}
        chosen = "NUMBA_CPU_NAME" in os.environ or "NUMBA_CPU_FEATURES" in os.environ  # a processor, by the user
        return dict(manifest["files"]) if needed <= host and not chosen else {}
    except (OSError, ValueError, LookupError, TypeError, RuntimeError):  # missing, damaged, or an unknown processor
        return {}


def is_stored(kernel: str) -> bool:
    """Return True if code of this kernel came with the package or is stored next to its source."""
    pattern = f"*.{kernel}_{digest_sources()}-*.nbi"
    return any(any(place.glob(pattern)) for place in (FOLDER, *STAGES.rglob("__pycache__")))


def is_intact(path: Path) -> bool:
    """Return True if the manifest in the same folder lists it with the checksum that it has, or is not written yet."""
    if is_writing():
        return True
    checksum = read_checksums(path.parent).get(path.name)
    return checksum is not None and path.is_file() and _digest(path) == checksum


def is_writing() -> bool:
    """Return True in a process that compiles for the baseline processor."""
    return bool(os.environ.get(WRITE_VARIABLE))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
