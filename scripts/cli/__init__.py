"""The only place that knows how things look."""
