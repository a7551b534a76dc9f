// Package wanted requests things outside of the mesh that rows want: Secrets, issuers' keys, and addresses of gateways' names. The answers
// are staged on inputs. Its functions that pass on requests read the changes of the last turn; the owner of the turns calls them.
package wanted
