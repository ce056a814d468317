"""The use case ``setup`` and its steps."""
