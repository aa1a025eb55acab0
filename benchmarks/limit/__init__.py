"""The measured peaks of this machine, and the part of them that each row of the suite reaches."""
