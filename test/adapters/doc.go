// Package adapters holds docs/adapters.md to what it says: its commands and programs are run as they stand there.
package adapters
