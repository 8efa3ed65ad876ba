"""Web servers in front of the application server: nginx and Apache httpd."""
