"""Pure functions on neighbour lists and sparse matrices: graph -> diffusion -> states -> transport -> paths -> fusion."""
