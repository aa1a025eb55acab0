"""Products of matrices and what is made of them: convolutions, transforms, factorizations."""
