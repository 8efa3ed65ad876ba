"""Reports and figures of a study: the page, the terminal's table, files."""
