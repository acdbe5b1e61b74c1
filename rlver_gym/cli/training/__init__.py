"""The commands that train and fit: a policy, a user's weights, and the data for either."""
