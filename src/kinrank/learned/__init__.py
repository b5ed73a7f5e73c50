"""Features and labels -> the weights of a learned method: CSA, SSR, LAttQE. Only fitting needs torch."""

from kinrank.learned.fitting import fit
from kinrank.learned.importing import import_weights
from kinrank.learned.recipes import IMPORTS, RECIPES

__all__ = ["IMPORTS", "RECIPES", "fit", "import_weights"]
