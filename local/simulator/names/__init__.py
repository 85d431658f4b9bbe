"""What each engine calls the things it measures."""
