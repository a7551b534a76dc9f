// Package environment reads options from environment variables, and gathers all that is wrong with them. It must not know which
// variables there are.
package environment
