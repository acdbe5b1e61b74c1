"""What users need to test their own agents, users and loops: a real chat server on loopback, and scripted ones."""
