"""Pages for people: forms, lists, the job, the manual, and how values read on them."""
