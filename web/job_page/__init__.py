"""What the page of a job consists of: its story, its verdict, its diagnosis, and the charts."""
