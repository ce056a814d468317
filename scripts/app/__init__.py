"""Use cases: one function each; they return result objects, print nothing and never exit."""
