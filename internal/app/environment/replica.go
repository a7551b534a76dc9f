package environment

import (
	"crypto/rand"
	"os"
)

// Replica returns a name that tells this run of the program from all other control planes: the pod's or the host's, and something random.
func Replica() string { return Instance() + "_" + rand.Text()[:8] } // without a name the rest tells it apart

// Instance returns the name of the pod, or of the host, that the program runs in; empty: it has none.
func Instance() string {
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	return name
}
