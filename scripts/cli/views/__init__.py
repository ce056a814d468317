"""One view for each verb: what a person sees of its result."""
