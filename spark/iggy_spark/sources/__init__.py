"""What reads other systems into a topic, each a `Source`."""
