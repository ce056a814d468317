"""How fast we are beside the tools people would use instead; run by ``nox -s figures``."""
