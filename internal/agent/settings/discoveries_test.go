package settings

import (
	"strings"
	"testing"
)

// TestDiscoveries: a proxy may have several control planes; each is a name that it expects in their certificates, and each is asked for
// certificates.
func TestDiscoveries(t *testing.T) {
	t.Chdir(t.TempDir())
	resolve := func(address string, vars map[string]string) (Options, error) {
		f := unset()
		f.DiscoveryAddress = address
		return Resolve(f, Environment{Hostname: "host", Addresses: []string{"10.1.1.1"}, Vars: vars})
	}
	o, err := resolve("a:15012, b:15012,10.0.0.3:15012", map[string]string{"PROV_CERT": "/x"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.Bootstrap.Discoveries(), " "); got != "a:15012 b:15012 10.0.0.3:15012" {
		t.Errorf("control planes %s", got)
	}
	if got := strings.Join(o.Secrets.Authority.Addresses, " "); got != "a:15012 b:15012 10.0.0.3:15012" {
		t.Errorf("authorities %s", got)
	}
	if names := o.Bootstrap.Node.Metadata["PILOT_SAN"].([]any); len(names) != 3 || names[1] != "b" {
		t.Errorf("names %v", names)
	}
	o, err = resolve("", map[string]string{"PROXY_CONFIG": `discoveryAddress: "a:15010,b:15010"`})
	if err != nil || len(o.Bootstrap.Others) != 1 {
		t.Errorf("by ProxyConfig: %v, %v", o.Bootstrap.Others, err)
	}
	for address, want := range map[string]string{
		"a:15012,":        "missing port",
		"a:15012,a:15012": "named twice",
		"a:15012,b:15010": "want all of one kind",
		"a:1,b":           "missing port",
		manyAddresses(17): "more than 16",
	} {
		if _, err := resolve(address, map[string]string{"CA_ADDR": "ca:1"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func manyAddresses(n int) string {
	var all []string
	for i := range n {
		all = append(all, "h"+strings.Repeat("x", i)+":15012")
	}
	return strings.Join(all, ",")
}
