package identity_test

import (
	"crypto/x509"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairway/internal/identity"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want identity.ID // zero: an error
	}{
		{"spiffe://cluster.local/ns/shop/sa/web", identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}},
		{"spiffe://a-b_c.9/ns/a.b/sa/X_y-1", identity.ID{TrustDomain: "a-b_c.9", Namespace: "a.b", ServiceAccount: "X_y-1"}},
		{text: ""},
		{text: "cluster.local/ns/shop/sa/web"},
		{text: "https://cluster.local/ns/shop/sa/web"},
		{text: "spiffe://cluster.local"},
		{text: "spiffe://cluster.local/ns/shop/sa/"},
		{text: "spiffe://cluster.local/ns//sa/web"},
		{text: "spiffe:///ns/shop/sa/web"},
		{text: "spiffe://cluster.local/ns/shop/sa/web/"},
		{text: "spiffe://cluster.local/ns/shop/sa/web?x=1"},
		{text: "spiffe://cluster.local/ns/shop/sa/web#x"},
		{text: "spiffe://cluster.local:80/ns/shop/sa/web"},
		{text: "spiffe://u@cluster.local/ns/shop/sa/web"},
		{text: "spiffe://Cluster.Local/ns/shop/sa/web"},
		{text: "spiffe://cluster.local/ns/../sa/web"},
		{text: "spiffe://cluster.local/ns/sh%6Fp/sa/web"},
		{text: "spiffe://cluster.local/sa/shop/ns/web"},
		{text: "spiffe://cluster.local/ns/shop/sa/" + strings.Repeat("x", 2100)},
		{text: "spiffe://" + strings.Repeat("x", 256) + "/ns/shop/sa/web"},
	} {
		got, err := identity.Parse(c.text)
		if c.want == (identity.ID{}) {
			if !errors.Is(err, identity.ErrInvalid) {
				t.Errorf("%q: %v, %v; want ErrInvalid", c.text, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %v, %v; want %v", c.text, got, err, c.want)
		}
	}
}

// TestParseIsTheInverseOfString: and a certificate's URI name says the same.
func TestParseIsTheInverseOfString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.StringMatching(`[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}`)
		want := identity.ID{
			TrustDomain:    rapid.StringMatching(`[a-z0-9._-]{1,40}`).Draw(t, "domain"),
			Namespace:      segment.Draw(t, "namespace"),
			ServiceAccount: segment.Draw(t, "account"),
		}
		if got, err := identity.Parse(want.String()); err != nil || got != want {
			t.Fatalf("%s: %v, %v", want, got, err)
		}
		if got, err := identity.FromCertificate(&x509.Certificate{URIs: []*url.URL{want.URL()}}); err != nil || got != want {
			t.Fatalf("%s as a certificate's name: %v, %v", want, got, err)
		}
	})
}

func TestFromCertificateWantsOneName(t *testing.T) {
	id := identity.ID{TrustDomain: "td", Namespace: "ns", ServiceAccount: "sa"}
	for _, uris := range [][]*url.URL{nil, {id.URL(), id.URL()}} {
		if _, err := identity.FromCertificate(&x509.Certificate{URIs: uris}); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%d names: %v", len(uris), err)
		}
	}
}

func TestFromSubject(t *testing.T) {
	if got, err := identity.FromSubject("td", "system:serviceaccount:shop:web"); err != nil ||
		got.String() != "spiffe://td/ns/shop/sa/web" {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{
		"", "web", "system:serviceaccount:shop", "system:serviceaccount:shop:", "system:serviceaccount::web",
		"system:serviceaccount:a:b:c", "system:node:n",
	} {
		if got, err := identity.FromSubject("td", s); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestTrust(t *testing.T) {
	trust, err := identity.NewTrust("new", "old", "older", "old", "new")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, id := range trust.Expand(identity.ID{TrustDomain: "older", Namespace: "n", ServiceAccount: "s"}) {
		all = append(all, id.TrustDomain)
	}
	if !slices.Equal(all, []string{"new", "old", "older"}) {
		t.Errorf("expands to %v", all)
	}
	foreign := identity.ID{TrustDomain: "else", Namespace: "n", ServiceAccount: "s"}
	if got := trust.Expand(foreign); len(got) != 1 || got[0] != foreign {
		t.Errorf("a foreign id expands to %v", got)
	}
	if _, ok := trust.Own(foreign); ok || trust.Has("else") || trust.Has("") || (identity.Trust{}).Has("") {
		t.Error("a foreign trust domain is trusted")
	}
	if _, err := identity.NewTrust("New"); err == nil {
		t.Error("a bad trust domain passes")
	}
	if _, err := identity.NewTrust("new", "Old"); err == nil {
		t.Error("a bad alias passes")
	}
}
