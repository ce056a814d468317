"""Documents: what was seen, at which level, on which machine."""
