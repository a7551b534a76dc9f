package page_test

import (
	"testing"

	"fairway/internal/admin/page"
)

// TestFit: a more specific name fits better, and a whole key fits only one proxy.
func TestFit(t *testing.T) {
	const node = "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local"
	for _, c := range []struct {
		identity, name string
		want           int
	}{
		{"shop/web", "shop/web|" + node, 4}, {"", "|" + node, 4}, {"bank/web", "shop/web|" + node, 0}, {"shop/web", "|" + node, 0},
		{"shop/web", node, 3}, {"", node, 3}, // who proved nothing does not go before who did
		{"shop/web", "web-1.shop", 2}, {"", "pod/web-1.shop", 2}, {"", "web-1", 1}, {"", "pod/web-1", 1}, {"", "web", 0}, {"", "", 0},
	} {
		if got := page.Fit(node, c.identity, c.name); got != c.want {
			t.Errorf("%q of %q: %d, want %d", c.name, c.identity, got, c.want)
		}
	}
}

func TestAccount(t *testing.T) {
	for spiffe, want := range map[string]string{
		"spiffe://mesh/ns/shop/sa/web": "shop/web",
		"":                             "",
		"spiffe://mesh/ns/shop":        "",
		"spiffe://mesh/ns//sa/web":     "",
	} {
		if got := page.Account(spiffe); got != want {
			t.Errorf("%q: %q, want %q", spiffe, got, want)
		}
	}
}
