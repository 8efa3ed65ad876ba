"""Applications under test, a package each; ``leadline.stack.registry`` has one row for each."""
