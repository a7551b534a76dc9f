package environment

import (
	"crypto/rand"
	"os"
)

// Replica returns a name that tells this run of the program from all other control planes: the pod's or the host's, and something random.
func Replica() string {
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname() // without one the rest tells it apart
	}
	return name + "_" + rand.Text()[:8]
}
