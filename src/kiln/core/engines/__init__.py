"""The protocol between programs and the engines that run them."""
