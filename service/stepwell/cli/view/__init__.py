"""Output: text, tables, trees and JSON of what the client reads, whole or followed."""
