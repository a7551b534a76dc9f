// Package sharing opens the state that control planes share (--state), reports on it, and saves and restores it.
//
// It must not know how the state is used: secure hands it to the authority and to join tokens.
package sharing
