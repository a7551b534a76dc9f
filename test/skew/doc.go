// Package skew runs the previous release's programs beside this one's: an upgrade of the control plane and then of the agents, and the way
// back, under load. It holds what docs/operate/upgrade.md promises.
package skew
