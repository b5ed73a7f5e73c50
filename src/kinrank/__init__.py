"""kinrank re-ranks what a vector search found, along the manifold of the data.

    import kinrank as kr
    ranking = kr.rerank(queries, gallery)            # LPMT, queries and gallery in one graph
"""

from kinrank.errors import NotEnoughMemory
from kinrank.evaluation import Truth, compare, evaluate
from kinrank.methods import METHODS, Method, NoReranking
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.stores import ArrayStore, Store

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "ArrayStore",
    "Method",
    "NoReranking",
    "NotEnoughMemory",
    "Ranking",
    "Store",
    "Truth",
    "compare",
    "evaluate",
    "rerank",
]
