"""The owner's side of jobs: the jobs themselves, their artifacts, the grouping of failures, and messages at a job's end."""
