// Package applies finds the connected proxies that an object affects, and the reasons if it affects none. It removes each object in
// a trial turn that is then discarded.
package applies
