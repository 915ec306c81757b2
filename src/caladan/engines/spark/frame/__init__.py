"""Strategy *frame*: rules as DataFrame operations, a recursive clique round by round."""
