"""The story that `detent demo` tells: real processes, a stand-in agent, and a check at the end."""
