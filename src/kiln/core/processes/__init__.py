"""The other processes of a program: joined, connected, monitored."""
