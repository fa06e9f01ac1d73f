"""The file tools: what a child can see and change in its workspace. One module for each tool."""
