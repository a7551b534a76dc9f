package command

import (
	"testing"

	"fairway/test/rig"
)

// maxFile is how many bytes a file may have that the agent reads.
const maxFile = 67108864

// TestNameserversOfNoFile: a pipe or a file beyond its limit in the place of resolv.conf is an error that names it, at
// once; nobody waits for who never writes.
func TestNameserversOfNoFile(t *testing.T) {
	rig.NoFiles(t, "resolv.conf", maxFile, func(path string) error {
		_, err := nameservers(path)
		return err
	})
}
