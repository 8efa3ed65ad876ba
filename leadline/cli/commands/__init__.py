"""One module per family of commands."""
