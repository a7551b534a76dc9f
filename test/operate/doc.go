// Package operate holds what docs/operate promises, with real programs under load: an upgrade from the previous release and the way back,
// and a restore of the control plane's state.
package operate
