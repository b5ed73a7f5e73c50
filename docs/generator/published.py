"""The name of a method -> what its published programs do differently, and what is done here; in our own words."""

from __future__ import annotations

EXPANSION = (
    "No slip is known. As in the published program, queries are mixed with the original items even when the gallery "
    "is augmented (`kdba`); `kinrank.augment` does it the other way round, everything sees the augmented gallery."
)
ALPHA = (
    "The published program takes the bare power of the similarity. A negative similarity is then subtracted when "
    "alpha is odd, and is no number when alpha is not whole. Here negative similarities count as 0, which gives the "
    "same result wherever the nearest items have positive similarities. "
    + EXPANSION.removeprefix("No slip is known. ")
)
DISCRIMINATIVE = (
    "The published program solves a hard-margin problem without a limit, whose dual has no solution where the two sides "
    "cannot be separated. Here such violations cost a very large but finite price; separable sets give the same result."
)
PUBLISHED = {
    "none": "It is the baseline. There is nothing to get wrong.",
    "aqe": EXPANSION,
    "aqewd": EXPANSION,
    "alpha-qe": ALPHA,
    "dqe": DISCRIMINATIVE,
    "adba+aqe": EXPANSION,
    "adbawd+aqewd": EXPANSION,
    "alpha-dba+alpha-qe": ALPHA,
    "ddba+dqe": DISCRIMINATIVE,
    "super-global": (
        "The published program builds one array for all queries (queries x 400 x 10 x dimensions); here queries are "
        "worked off one by one, with the same result. It also assumes that an item is its own nearest, which "
        "duplicates break; here that is so by identity. The paper's other modules concern feature extraction and are "
        "no part of re-ranking."
    ),
    "dfs": (
        "Published programs divide by zero at items without a mutual neighbour, or add a small number to the degrees. "
        "Here such items have an empty row and follow in the order of the search. One widespread program enters "
        "through `kq=4` items although its documentation says 10; the default here is 10."
    ),
    "fsr": (
        "The widespread program overwrites its rank by the size of the gallery, so that it computes DFS exactly and "
        'slowly instead of a low-rank approximation. `variant="published"` does that; the default is the low-rank method '
        "of the paper."
    ),
    "rdp": (
        "The published program squares a distance that is squared already, and stops after 20 steps. "
        '`variant="published"` does both; the default uses the squared distance once and solves for the fixed point.'
    ),
    "eir": (
        "The published program offers two searches under one name: that of the paper, where the gallery alone is "
        'prepared, and a newer default with queries in the graph. `variant="paper"` is the first and the default here, '
        '`variant="joint"` the second.'
    ),
    "egt": (
        "The published program means to add all reverse edges, but stores them under the wrong key, so that one per item "
        'survives. It also reads weights rounded to three decimals. `variant="published"` does both; the default adds '
        "all reverse edges and does not round."
    ),
    "cas": (
        "No slip that changes the default result is known, so there is no variant; the ten fixed steps of the diffusion "
        "and the average over diagonal entries only are kept as published. The published program needs at least 100 items "
        "and computes all pairs; here any number will do, and paths start from the queries only."
    ),
    "knn": (
        "No slip is known. As in the published program the query votes too, so k + 1 lists count."
    ),
    "k-reciprocal": (
        "The published program expects Euclidean distances and squares them. Programs built on it pass squared distances, "
        'which are then squared again. `variant="published"` reproduces that (d^4); the default is d^2. Unlike the '
        "published program this one keeps no n x n array, and works in single instead of half precision."
    ),
    "sca": "The paper came without a program, so there is none to differ from.",
    "ecn": (
        "The published program returns items x queries and mixes two scales: negative sums of ranks, and cosine distances "
        "where such a sum is zero. The values are kept, the table is turned round, and only the order should be used."
    ),
    "gnn": (
        "In the official program an item is its own first neighbour in the sum. A widespread second program adds the item's "
        'own row once more. `variant="published"` does that; the default is the official form. The paper has `lam=0`, a '
        "newer version of the official program 0.3."
    ),
    "conaff": (
        "The settings behind published tables are not known. The defaults are those of the authors' own evaluation."
    ),
    "stml": (
        "The published re-ranking program squares squared distances (d^4): `variant=\"published\"`. The training loss the "
        'method comes from has another kernel and restricts the overlap to reciprocal neighbours: `variant="loss"`. The '
        "default is the re-ranking form with d^2."
    ),
    "lpmt": (
        "Where the paper contradicts itself or is silent, [How we read LPMT](../lpmt.md) says what is computed and which "
        "parameter brings the literal form back."
    ),
}  # fmt: skip
