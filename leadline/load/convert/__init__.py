"""First scenarios from recordings and descriptions made for other tools."""
