package dynamic

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"fairway/internal/mesh"
)

// full matches a regular expression as Envoy does: against the whole text.
func full(t *testing.T, expression string) *regexp.Regexp {
	t.Helper()
	return regexp.MustCompile("^(?:" + expression + ")$")
}

// TestUnder: a request is for a name below the wildcard, or it is not, in every spelling.
func TestUnder(t *testing.T) {
	condition := Under(mesh.Host("*.example.com"))
	if condition.GetName() != ":authority" {
		t.Fatalf("the condition is on %q", condition.GetName())
	}
	is := full(t, condition.GetStringMatch().GetSafeRegex().GetRegex())
	for authority, want := range map[string]bool{
		"a.example.com":                 true,
		"A.Example.COM":                 true,
		"a.b.example.com":               true,
		"a.example.com.":                true,
		"a.example.com:8080":            true,
		"a.example.com.:8080":           true,
		"_x-1.example.com":              true,
		"example.com":                   false,
		".example.com":                  false,
		"aexample.com":                  false,
		"a.exampleXcom":                 false,
		"a.example.com.other.test":      false,
		"other.test":                    false,
		"127.0.0.1":                     false,
		"[::1]":                         false,
		"localhost":                     false,
		"127.0.0.1:80.example.com":      false,
		"other.test/.example.com":       false,
		"user@a.example.com":            false,
		"a.example.com@other.test":      false,
		"a.example.com:80:80":           false,
		"a.example.com:":                false,
		"other.test#.example.com":       false,
		"other.test\x00.example.com":    false,
		"a.example.com\n":               false,
		"":                              false,
		"a.example.com:8080.other.test": false,
	} {
		if got := is.MatchString(authority); got != want {
			t.Errorf("%q is below *.example.com: %v, want %v", authority, got, want)
		}
	}
	if one := full(t, Under("a.example.com").GetStringMatch().GetSafeRegex().GetRegex()); one.MatchString("b.a.example.com") ||
		!one.MatchString("a.example.com:80") {
		t.Error("a host that is no wildcard covers more or less than itself")
	}
}

// TestAuthority: only the name is resolved, for every request that Under matches.
func TestAuthority(t *testing.T) {
	is := full(t, authority)
	for text, want := range map[string]string{
		"a.example.com": "a.example.com", "a.example.com.": "a.example.com", "a.example.com:8080": "a.example.com",
		"a.example.com.:8080": "a.example.com", "_a.example.com": "_a.example.com", "a": "a",
		"[::1]:80": "", "a.example.com:80.b": "", "": "",
	} {
		name := ""
		if m := is.FindStringSubmatch(text); m != nil {
			name = m[1]
		}
		if name != want {
			t.Errorf("of %q the name is %q, want %q", text, name, want)
		}
	}
}

// TestLocal: addresses of the machine or its link are not used, unless all addresses may be.
func TestLocal(t *testing.T) {
	if All.cache().GetResolvedAddressFilter() != nil || All.cache().GetName() == Others.cache().GetName() {
		t.Error("a cache in which all answers count is another one, without a filter")
	}
	var barred []netip.Prefix
	for _, r := range Others.cache().GetResolvedAddressFilter().GetRanges() {
		a, err := netip.ParseAddr(r.GetAddressPrefix())
		if err != nil {
			t.Fatal(err)
		}
		barred = append(barred, netip.PrefixFrom(a, int(r.GetPrefixLen().GetValue())))
	}
	for _, text := range []string{
		"127.0.0.1", "127.255.0.9", "0.0.0.0", "169.254.169.254", "::", "::1", "fe80::1",
		"10.0.0.1", "240.240.0.1", "8.8.8.8", "2001:db8::1", "fd00::1",
		"::ffff:127.0.0.1", "::ffff:169.254.0.1", "::ffff:0.0.0.0", "::ffff:10.0.0.1",
	} {
		a, want := netip.MustParseAddr(text), mesh.ReachOf(text) != mesh.Anywhere
		got := false
		for _, p := range barred {
			got = got || p.Contains(a)
		}
		if got != want {
			t.Errorf("%s is left out: %v, want %v", text, got, want)
		}
	}
	if len(Requests(None)) != 0 || strings.Contains(Connection(Others, 443).String(), "dynamic_dns_all") {
		t.Error("filters where no names are resolved, or with another cache")
	}
}
