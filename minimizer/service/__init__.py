"""Code of the service that web, worker and command line share: broker, logs, and archives of scripts."""
