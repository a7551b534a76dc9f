package mesh

import (
	"testing"

	"fairway/test/rig"
)

// rules returns the mesh's rules: strict everywhere; a service of b; a service with another workload as its endpoint;
// an entry from outside; and a service at the second addresses of b, if it has some.
func (c cell) rules(t *testing.T) string {
	t.Helper()
	text := rig.Text(t, "rules.yaml", c.values)
	if c.second != nil {
		text += "---\n" + rig.Text(t, "second.yaml", c.second.values)
	}
	return text
}

// values are the addresses that rules name.
func (n network) values(name string) (string, bool) {
	return rig.Pairs("service", n.service, "fake", n.fake, "impostor", n.impostor, "b", n.ip("b"))(name)
}
