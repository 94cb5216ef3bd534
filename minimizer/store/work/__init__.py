"""The workers' side: worker records, claims and leases of jobs, results, and the retries of webhook messages."""
