package proxy

import "testing"

func TestDynamic(t *testing.T) {
	for text, want := range map[string]bool{
		"":     false,
		"a: [": false,
		"dynamic_resources: {cds_config: {ads: {}}, lds_config: {ads: {}}}": true,
		"dynamic_resources: {cds_config: {ads: {}}}":                        false,
	} {
		if dynamic([]byte(text)) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
