"""The site: `python -m website` writes its sources, and Sphinx builds them."""
