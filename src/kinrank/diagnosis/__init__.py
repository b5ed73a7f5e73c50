"""Vectors, with or without labels -> whether re-ranking will help, and with which parameters."""

from kinrank.diagnosis.diagnose import Diagnosis, diagnose
from kinrank.diagnosis.facts import Facts
from kinrank.diagnosis.tuning import Tuned, tune

__all__ = ["Diagnosis", "Facts", "Tuned", "diagnose", "tune"]
