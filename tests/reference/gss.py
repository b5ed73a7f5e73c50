"""GSS from its equations: dense matrices in float64, item by item and layer by layer, each derivative separately."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reference.expansion import ranking, similarity

Layers = list[tuple[np.ndarray, np.ndarray]]  # (weights, bias) of each


class Run(NamedTuple):
    """Intermediate results: per layer A^ H of the layer below, P, H; then the embeddings and their former lengths."""

    inputs: list[np.ndarray]
    sums: list[np.ndarray]
    outputs: list[np.ndarray]
    embeddings: np.ndarray
    lengths: np.ndarray


def edges(gallery: np.ndarray, k: int) -> np.ndarray:
    """Return A: similarity, at least 0, of two items of which one is among the k - 1 nearest others of the other."""
    count = len(gallery)
    matrix = np.zeros((count, count))
    for item in range(count):
        for other in ranking(gallery[item], gallery, item)[: k - 1]:
            matrix[item, other] = matrix[other, item] = max(similarity(gallery[item], gallery[other]), 0.0)
    return matrix


def normalised(matrix: np.ndarray) -> np.ndarray:
    """Return A^."""
    degrees = 1.0 + matrix.sum(axis=1)
    with_self = matrix + np.eye(len(matrix))
    return np.array(
        [[with_self[i, j] / np.sqrt(degrees[i] * degrees[j]) for j in range(len(matrix))] for i in range(len(matrix))]
    ).reshape(matrix.shape)


def elu(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.exp(np.minimum(values, 0)) - 1)


def slope(values: np.ndarray) -> np.ndarray:
    """Return the derivative of elu."""
    return np.where(values > 0, 1.0, np.exp(np.minimum(values, 0)))


def run(adjacency: np.ndarray, rows: np.ndarray, layers: Layers, decay: float) -> Run:
    inputs, sums, outputs, values = [], [], [], rows
    for level, (weights, bias) in enumerate(layers):
        inputs.append(adjacency @ values)
        sums.append(inputs[-1] @ weights + bias)
        values = elu(sums[-1]) if level == 0 else sums[-2] + decay * elu(sums[-1])
        outputs.append(values)
    lengths = np.sqrt((values**2).sum(axis=1))
    return Run(inputs, sums, outputs, values / lengths[:, None], lengths)


def loss(embeddings: np.ndarray, alpha: float, beta: float) -> float:
    products = embeddings @ embeddings.T
    return float(np.mean(-alpha / 2 * (np.maximum(products, 0) - beta) ** 2))


def gradient(adjacency: np.ndarray, found: Run, layers: Layers, decay: float, alpha: float, beta: float) -> Layers:
    """Return the gradient of the loss by weights and biases."""
    products = found.embeddings @ found.embeddings.T
    by_products = -alpha / len(products) ** 2 * (np.maximum(products, 0) - beta) * (products > 0)
    by_embeddings = (by_products + by_products.T) @ found.embeddings
    along = (by_embeddings * found.embeddings).sum(axis=1, keepdims=True)
    by_output = (by_embeddings - found.embeddings * along) / found.lengths[:, None]
    by_sums = [np.zeros_like(sums) for sums in found.sums]
    made = []
    for level in range(len(layers) - 1, -1, -1):
        if level:
            by_sums[level] += decay * slope(found.sums[level]) * by_output
            by_sums[level - 1] += by_output
        else:
            by_sums[level] += slope(found.sums[level]) * by_output
        made.append((found.inputs[level].T @ by_sums[level], by_sums[level].sum(axis=0)))
        by_output = adjacency.T @ by_sums[level] @ layers[level][0].T
    return made[::-1]


def trained(
    adjacency: np.ndarray,
    rows: np.ndarray,
    layers: Layers,
    epochs: int,
    lr: float,
    decay: float,
    alpha: float,
    percentile: float,
) -> tuple[Layers, list[float]]:
    """Return the layers after full-batch steps of Adam, and the loss before each."""
    found = run(adjacency, rows, layers, decay)
    beta = float(np.percentile(found.embeddings @ found.embeddings.T, percentile))
    flat = [array.copy() for layer in layers for array in layer]
    first, second = [np.zeros_like(array) for array in flat], [np.zeros_like(array) for array in flat]
    losses = []
    for step in range(1, epochs + 1):
        layers = list(zip(flat[::2], flat[1::2], strict=True))
        found = run(adjacency, rows, layers, decay)
        losses.append(loss(found.embeddings, alpha, beta))
        by_layers = gradient(adjacency, found, layers, decay, alpha, beta)
        for number, slopes in enumerate(array for layer in by_layers for array in layer):
            first[number] = 0.9 * first[number] + 0.1 * slopes
            second[number] = 0.999 * second[number] + 0.001 * slopes**2
            rate = lr * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            flat[number] = flat[number] - rate * first[number] / (np.sqrt(second[number]) + 1e-8)
    return list(zip(flat[::2], flat[1::2], strict=True)), losses


def entering(
    query: np.ndarray, gallery: np.ndarray, matrix: np.ndarray, found: Run, layers: Layers, kq: int, decay: float
) -> np.ndarray:
    """Return the embedding of one query from outside; `matrix` is A."""
    near = ranking(query, gallery, None)[:kq]
    similar = {item: max(similarity(query, gallery[item]), 0.0) for item in near}
    own = 1.0 + sum(similar.values())
    degrees = 1.0 + matrix.sum(axis=1)
    value, sums = query, []
    for level, (weights, bias) in enumerate(layers):
        items = gallery if level == 0 else found.outputs[level - 1]
        total = value / own
        for item, weight in similar.items():
            total = total + weight / np.sqrt(own * degrees[item]) * items[item]
        sums.append(total @ weights + bias)
        value = elu(sums[-1]) if level == 0 else sums[-2] + decay * elu(sums[-1])
    return value / np.sqrt((value**2).sum())


def gss_distances(
    queries: np.ndarray | None,
    gallery: np.ndarray,
    k: int = 5,
    kq: int = 5,
    epochs: int = 200,
    lr: float = 1e-4,
    decay: float = 0.3,
    percentile: float = 98,
    alpha: float = 1,
    layers: int = 2,
) -> np.ndarray:
    """Return -e_q.e_x; without queries the items are the queries."""
    gallery = gallery.astype(np.float64)
    size = gallery.shape[1]
    matrix = edges(gallery, k)
    adjacency = normalised(matrix)
    start = [(np.eye(size), np.zeros(size)) for _ in range(layers)]
    network, _ = trained(adjacency, gallery, start, epochs, lr, decay, alpha, percentile)
    found = run(adjacency, gallery, network, decay)
    if queries is None:
        return -found.embeddings @ found.embeddings.T
    asked = [entering(row, gallery, matrix, found, network, kq, decay) for row in queries.astype(np.float64)]
    return -np.array(asked) @ found.embeddings.T
