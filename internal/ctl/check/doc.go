// Package check has pilotctl's verb check: it looks whether a cluster, a machine or a running mesh is as it should be, and says for each
// thing that is not why, what mends it, and which page tells more. Each check is bounded in time. planes asks control planes, webhooks and
// rights ask an API server, machine looks at this machine.
//
// It must not know how control planes are found and reached, and it changes nothing. Start reading in command.go.
package check
