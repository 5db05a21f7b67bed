"""The memory of a policy, and all that knows numba from the inside: compiling, calls by address, named fields."""
