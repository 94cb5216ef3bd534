"""REST under ``/api/v1``: a file for each resource, and the shapes of what is sent."""
