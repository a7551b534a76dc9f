// Package selectors tells sources which namespaces to read, by the mesh configuration (discoverySelectors).
package selectors
