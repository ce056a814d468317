"""The compatibility matrix as a static site: data files, one page, and what changed. Pure."""
