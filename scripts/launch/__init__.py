"""Starting the user's program with a stack."""
