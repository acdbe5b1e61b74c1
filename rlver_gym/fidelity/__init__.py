"""How faithful a simulated user is: recorded dialogues read again through it."""
