package cluster

import (
	"fmt"
	"testing"

	"fairway/test/gate"
)

// Gate is a way to the API server that a test can close and open again.
type Gate = gate.Gate

// Gate makes an open one.
func (c *Cluster) Gate(t testing.TB) *Gate {
	t.Helper()
	return gate.New(t, fmt.Sprintf("127.0.0.1:%d", c.port))
}
