"""The state that modules run in: variables, keys, filters, and the methods being run."""
