"""Embed pictures, prepare a gallery, and search it with a picture that is not in it."""

from PIL import Image

import kinrank as kr
from kinrank.datasets.turntable import TOY_NAMES, turntable

drawn, labels, angles = turntable(objects=6, views=24, size=96)  # toys from all sides
pictures = [Image.fromarray(pixels) for pixels in drawn]
names = [f"{TOY_NAMES[label]}_{angle:03.0f}" for label, angle in zip(labels, angles, strict=True)]

query, name = pictures.pop(30), names.pop(30)
photos = kr.embed(pictures, names=names)  # with EfficientNet-lite; for a folder: kr.embed("photos")
manifold = kr.Manifold.build(photos.vectors, ids=photos.ids)
found = manifold.search(kr.embed([query]).vectors, k=10).ids[0]
right = sum(one.split("_")[0] == name.split("_")[0] for one in found)
print(f"{photos}\n{name}: {right} of the first 10 show the same toy")
