"""Our side of the sandboxed child: its folders and environment, the pipe, and its tasks."""
