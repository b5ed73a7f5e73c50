"""A file of published weights -> the network it belongs to; one file per family. Only these modules import torch.

The parts of a network are called as in the published files, which is why some names are short.
"""
