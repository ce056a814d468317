"""PyTorch's settings on a translation layer, held for as long as a process lives. Needs Python 3.8 alone."""
