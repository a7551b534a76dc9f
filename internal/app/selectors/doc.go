// Package selectors tells sources which namespaces the mesh configuration has them read (discoverySelectors).
package selectors
