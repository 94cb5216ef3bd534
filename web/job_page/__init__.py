"""The parts of a job's page: its story, its verdict, its diagnosis, and the charts."""
