"""What web, worker and command line share of the service: the broker, the logs, and scripts that arrive as archives."""
