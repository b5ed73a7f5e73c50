"""Encoders of the paper's tables: published image retrieval networks, which `kinrank embed --encoder` opens by name.

The attributes of a network have the names of the published files, which is why some are short.
"""
