"""Fitting of the learned methods CSA, SSR and LAttQE from features and labels. Only fitting needs torch."""

from kinrank.learned.fit_weights import fit
from kinrank.learned.recipes import IMPORTS, RECIPES
from kinrank.learned.weight_import import import_weights

__all__ = ["IMPORTS", "RECIPES", "fit", "import_weights"]
