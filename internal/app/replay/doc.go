// Package replay has a control plane work from a snapshot: its sources hand in what the snapshot has, nothing outside is asked, and a proxy
// that the snapshot knows is taken for what it was there, whatever it proves. So the same proxies are sent the same bytes.
package replay
