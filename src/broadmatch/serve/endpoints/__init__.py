"""What each endpoint of the server does, from a decoded request to the bytes of its answer."""
