package cluster_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/table"
)

const (
	oneNetwork = "kind: MeshNetworks\nspec: {networks: {a: {endpoints: [{fromCidr: 10.0.0.0/8}], " +
		"gateways: [{address: 192.0.2.1, port: 15443}]}}}\n"
	twoNetworks = "kind: MeshNetworks\nspec: {networks: {a: {endpoints: [{fromCidr: 10.0.0.0/9}], " +
		"gateways: [{address: 192.0.2.1, port: 15443}]}, b: {endpoints: [{fromCidr: 10.128.0.0/9}], " +
		"gateways: [{address: 192.0.2.2, port: 15443}]}}}\n"
)

// far is how many rows there are of other networks, and how many a changed endpoint recomputes, of all tables.
func far(t *testing.T, networks string) (rows, changed int) {
	t.Helper()
	w := compiletest.Large(t)
	var text strings.Builder
	for i := range 50 {
		text.WriteString(service(i, 1))
	}
	w.Apply(text.String())
	if networks != "" {
		w.Apply(networks)
	}
	for _, name := range []string{"a", "b"} {
		p := compiletest.Sidecar(name, "default", "192.168.0.1")
		p.Network, p.Mutual = "a", true
		w.Connect(p)
	}
	w.Settle()
	w.Store.Read(func(tx *table.Tx) {
		for _, info := range w.Store.Tables() {
			if strings.HasPrefix(info.Name, "far ") {
				rows += info.Rows
			}
		}
	})
	w.Apply(service(5, 2))
	return rows, w.Settle().Recomputed
}

// TestOneNetworkCostsNothing: if only one network has gateways, its own proxies have no rows of networks, and an endpoint that changes
// recomputes as many rows as without any network.
func TestOneNetworkCostsNothing(t *testing.T) {
	rows, without := far(t, "")
	more, one := far(t, oneNetwork)
	if rows != 0 || more != 0 || one != without {
		t.Errorf("%d rows of networks where there is none, %d where there is one; %d and %d recomputed", rows, more, without, one)
	}
	several, two := far(t, twoNetworks)
	t.Logf("two networks: %d rows, %d recomputed in place of %d", several, two, one)
	if several == 0 || two <= one || two > one+5 {
		t.Errorf("with two networks there are %d rows; a changed endpoint recomputes %d, and %d with one", several, two, one)
	}
}
