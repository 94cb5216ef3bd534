"""Values at the boundary of a compiled callable: tensors with their storages, random state, and facts about operators."""
