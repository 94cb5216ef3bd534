"""A job as its owner sees it, with its files, the group of its failure, and the word that is left when it ends."""
