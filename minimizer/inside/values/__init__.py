"""What a compiled callable can see and change: tensors with their storage, the random state, and what operators do to them."""
