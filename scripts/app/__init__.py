"""Use cases, one file a task: they return result objects; they neither print nor exit."""
