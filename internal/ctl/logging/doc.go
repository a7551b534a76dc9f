// Package logging is pilotctl admin log: how much control planes and agents log, and changes of that while they run.
// It must not know how they are found and reached.
package logging
