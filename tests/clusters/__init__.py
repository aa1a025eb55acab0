"""Programs of several processes under the managers that start them in clusters."""
