package loop

import "testing"

func TestTriggers(t *testing.T) {
	for _, c := range []struct {
		inputs []string
		want   string
	}{
		{[]string{"slices a"}, "endpoint"}, {[]string{"services/registries a", "slices a"}, "service"},
		{[]string{"serviceentries a", "workloads a"}, "service"}, {[]string{"proxies a"}, "proxy"},
		{[]string{"destinationrules a", "naming a"}, "config"}, {nil, "config"},
	} {
		if got := triggerOf(c.inputs); got != c.want {
			t.Errorf("%q: %s, want %s", c.inputs, got, c.want)
		}
	}
}
