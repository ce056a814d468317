"""The use case ``validate`` and its steps."""
