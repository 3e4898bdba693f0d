"""The console: a web page, and the Orchestrator service for browsers and `curl`, by HTTP on a separate port."""
