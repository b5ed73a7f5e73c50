"""Build hook: a wheel that contains machine code is for one Python and one system; without code it is for all."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLATFORMS = {
    ("linux", "x86_64"): "manylinux_2_17_x86_64",
    ("linux", "aarch64"): "manylinux_2_17_aarch64",
    ("darwin", "arm64"): "macosx_11_0_arm64",
}


class MachineCodeHook(BuildHookInterface):  # type: ignore[misc]
    """Packs the folder that `kinrank warmup --baseline` wrote, if there is one; it never compiles."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root) / "src" / "kinrank" / "machine_code"
        if version == "editable" or not (folder / "manifest.json").is_file():
            return
        built_for = json.loads((folder / "manifest.json").read_text())["baseline"]["python"]
        if built_for != sys.implementation.cache_tag:
            raise RuntimeError(f"the machine code in {folder} is for {built_for}: build with that Python, or remove it")
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{PLATFORMS[sys.platform, platform.machine()]}"
        build_data["artifacts"].append("src/kinrank/machine_code/*")  # although git ignores it
