"""The tables and figures of the LPMT paper, measured on whatever features a user has, beside the printed numbers."""
