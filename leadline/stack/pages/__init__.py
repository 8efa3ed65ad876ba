"""A web server alone with a site of files: study C without an application and without a database."""
