package secret_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestHolders: the annotations of a Secret name its holders. A bad annotation refuses the Secret.
func TestHolders(t *testing.T) {
	names := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("n%d", i))
		}
		return strings.Join(out, ",")
	}
	for _, c := range []struct {
		annotation, text string
		good             bool
		has, not         []string
	}{
		{"service-accounts", "web", true, []string{"web"}, []string{"", "we", "other"}},
		{"service-accounts", "web, api ,web", true, []string{"web", "api"}, []string{"web, api", "other"}},
		{"service-accounts", "web,*", true, []string{"web", "other"}, nil},
		{"service-accounts", "*", true, []string{"web", "other"}, nil},
		{"service-accounts", "", false, nil, nil},
		{"service-accounts", "web,", false, nil, nil},
		{"service-accounts", "a b", false, nil, nil},
		{"service-accounts", "azAZ09-_.", true, []string{"azAZ09-_."}, []string{"az"}},
		{"service-accounts", "a/b", false, nil, nil},
		{"service-accounts", "a:b", false, nil, nil},
		{"service-accounts", "a@b", false, nil, nil},
		{"service-accounts", "a[b", false, nil, nil},
		{"service-accounts", "a`b", false, nil, nil},
		{"service-accounts", "a{b", false, nil, nil},
		{"service-accounts", strings.Repeat("x", 253), true, []string{strings.Repeat("x", 253)}, nil},
		{"service-accounts", strings.Repeat("x", 254), false, nil, nil},
		{"service-accounts", names(64), true, []string{"n0", "n63"}, []string{"n64"}},
		{"service-accounts", names(65), false, nil, nil},
		{"gateway-namespaces", "shop", true, []string{"shop"}, []string{"", "sho", "other"}},
		{"gateway-namespaces", "shop, bank ,shop", true, []string{"shop", "bank"}, []string{"other"}},
		{"gateway-namespaces", "shop,*", true, []string{"shop", "other"}, nil},
		{"gateway-namespaces", "", false, nil, nil},
		{"gateway-namespaces", "Shop", false, nil, nil},
		{"gateway-namespaces", names(64), true, []string{"n0", "n63"}, []string{"n64"}},
		{"gateway-namespaces", names(65), false, nil, nil},
		{"other", "web", true, nil, []string{"web", ""}},
	} {
		meta := fmt.Sprintf("{name: web, annotations: {fairway/%s: %q}}", c.annotation, c.text)
		o, problems := decodeSecret(t, "apiVersion: v1\nkind: Secret\nmetadata: "+meta+"\n")
		if (o != nil) != c.good || (len(problems) == 0) != c.good {
			t.Errorf("%s %.40q: %v", c.annotation, c.text, problems)
			continue
		}
		if o == nil {
			continue
		}
		has := func(name string) bool {
			if c.annotation == "gateway-namespaces" {
				return o.Credential.Gateways.Has(name)
			}
			return o.Credential.Holders.Has(name)
		}
		for _, name := range c.has {
			if !has(name) {
				t.Errorf("%s %.40q: not %s", c.annotation, c.text, name)
			}
		}
		for _, name := range c.not {
			if has(name) {
				t.Errorf("%s %.40q: %q too", c.annotation, c.text, name)
			}
		}
	}
}
