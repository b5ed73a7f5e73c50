"""Neighbour lists and sparse matrices through pure functions.

graph -> diffusion -> states -> transport -> paths -> fusion.
"""
