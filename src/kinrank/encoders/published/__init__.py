"""Pictures -> the vectors of published retrieval networks, made as their authors made them; one file per encoder.

The networks stand in `kinrank.encoders.networks`; here is what surrounds them: boxes, sizes, scales, whitening.
"""
