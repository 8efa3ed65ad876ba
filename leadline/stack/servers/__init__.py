"""Java application servers: Open Liberty and Apache Tomcat."""
