"""Prediction whether re-ranking will help, and choice of parameters, with or without labels."""

from kinrank.diagnosis.cross_validation import Tuned, tune
from kinrank.diagnosis.diagnose import Diagnosis, diagnose
from kinrank.diagnosis.neighborhood_facts import Facts

__all__ = ["Diagnosis", "Facts", "Tuned", "diagnose", "tune"]
