// Package environment reads options from environment variables, and collects the errors in them. It must not know which variables
// there are.
package environment
