package registries

import "testing"

// TestNamesLikeBooleans: what looks like a boolean of YAML 1.1 is the text that was written.
func TestNamesLikeBooleans(t *testing.T) {
	nodes, err := parse([]byte("registries:\n- {name: n, consul: {urls: [\"http://127.0.0.1:1\"], host: yes}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := decode(nodes[0]); err != nil || e.Name != "n" || e.Consul.Host != "yes" {
		t.Errorf("%+v, %v", e, err)
	}
}
