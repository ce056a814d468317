"""The content-addressed store: fetching, unpacking, keeping."""
