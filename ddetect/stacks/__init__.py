"""One process in, its stacks out. Leaves know only the model."""
