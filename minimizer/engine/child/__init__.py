"""The sandboxed child as seen from our side: its folders and environment, the pipe, and the tasks it is given."""
