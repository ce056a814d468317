"""The use case ``doctor`` and what it looks at."""
