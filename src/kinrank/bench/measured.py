"""Every bench by its name."""

from __future__ import annotations

from kinrank.bench.accuracy import accuracy
from kinrank.bench.candidates import candidates
from kinrank.bench.defaults import defaults
from kinrank.bench.feedback import feedback
from kinrank.bench.memory import memory
from kinrank.bench.modes import modes
from kinrank.bench.scale import scale
from kinrank.bench.service import service
from kinrank.bench.speed import speed
from kinrank.bench.stores import stores

__all__ = ["accuracy", "candidates", "defaults", "feedback", "memory", "modes", "scale", "service", "speed", "stores"]
