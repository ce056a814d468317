"""Probes: what is asked, how an attempt is judged, what a matrix of them is worth, and how two compare."""
