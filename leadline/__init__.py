"""leadline: what the layers beneath a Java application do to it, measured by designed experiments."""

__version__ = "0.1.0"
