"""Evidence documents, check output, traces and validations."""
