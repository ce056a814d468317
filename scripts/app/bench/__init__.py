"""The use cases that measure: ``run``, ``compare``, ``ab``."""
