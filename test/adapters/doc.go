// Package adapters checks docs/adapters.md: it runs the page's commands and programs exactly as the page has them.
package adapters
