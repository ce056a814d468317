"""Tools of the developers: generators, references, controls."""
