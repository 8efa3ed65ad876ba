"""The pure core: the words of a study as frozen, typed values. Imports nothing that touches the world."""
