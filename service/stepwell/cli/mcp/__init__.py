"""Tools for runs, which `stepwell mcp` offers to assistants by the Model Context Protocol."""
