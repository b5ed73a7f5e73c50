"""Networks for published image retrieval weights. Only these modules import torch.

The attributes of a network have the names of the published files, which is why some are short.
"""
