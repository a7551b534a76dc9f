// Package wanted passes on which things outside of the mesh rows want: Secrets, issuers' keys, and addresses of gateways' names. What
// comes back is staged on inputs. Its functions that pass on read what the last turn changed; the owner of the turns calls them.
package wanted
