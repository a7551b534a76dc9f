package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"fairway/internal/config"
)

func meshOf(t *testing.T, text string) *meshconfig.MeshConfig {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := &meshconfig.MeshConfig{}
	if err := protojson.Unmarshal(body, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCertificates: each good entry of MeshConfig.certificates is kept, also behind bad ones.
func TestCertificates(t *testing.T) {
	many := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+",", n), ",") }
	numbered := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("{secretName: s%03d, dnsNames: [a.test]}", i))
		}
		return strings.Join(out, ",")
	}
	for name, c := range map[string]struct {
		list string
		want string // secret=names
		bad  []string
	}{
		"none": {"", "", nil},
		"several": {"{secretName: b, dnsNames: [b.test, a.test, b.test]}, {secretName: a, dnsNames: ['*.a.test']}",
			"a=*.a.test b=a.test,b.test", nil},
		"no name": {"{dnsNames: [a.test]}, {secretName: b, dnsNames: [b.test]}", "b=b.test", []string{"certificates[0].secretName"}},
		"no name of a Secret": {"{secretName: A_b, dnsNames: [a.test]}, {secretName: b, dnsNames: [b.test]}", "b=b.test",
			[]string{"certificates[0].secretName"}},
		"twice": {"{secretName: a, dnsNames: [a.test]}, {secretName: a, dnsNames: [b.test]}, {secretName: b, dnsNames: [b.test]}",
			"a=a.test b=b.test", []string{"certificates[1].secretName"}},
		"no DNS names": {"{secretName: a}, {secretName: b, dnsNames: [b.test]}", "b=b.test", []string{"certificates[0].dnsNames"}},
		"a bad DNS name": {"{secretName: a, dnsNames: [a.test, 'a b', c.test, 'd e']}, {secretName: b, dnsNames: [b.test]}", "b=b.test",
			[]string{"certificates[0].dnsNames[1]"}},
		"as many names as there may be": {"{secretName: a, dnsNames: [" + many(100, "a.test") + "]}", "a=a.test", nil},
		"too many names": {"{secretName: a, dnsNames: [" + many(101, "a.test") + "]}, {secretName: b, dnsNames: [b.test]}", "b=b.test",
			[]string{"certificates[0].dnsNames"}},
		"too many": {numbered(102), "", []string{"certificates[100]"}},
	} {
		out, bad := config.CertificatesOf(meshOf(t, "certificates: ["+c.list+"]"))
		if name == "too many" {
			if len(out) != 100 || out[99].Secret != "s099" {
				t.Errorf("%d certificates are kept", len(out))
			}
			out = nil
		}
		var got, fields []string
		for _, one := range out {
			got = append(got, one.Secret+"="+strings.Join(one.Names, ","))
		}
		for _, u := range bad {
			fields = append(fields, u.Field)
		}
		if strings.Join(got, " ") != c.want || !slices.Equal(fields, c.bad) {
			t.Errorf("%s: %q, problems with %q", name, got, fields)
		}
	}
}

// TestSignerRoots: the roots of every entry that names the signer.
func TestSignerRoots(t *testing.T) {
	m := meshOf(t, `caCertificates: [{pem: one, certSigners: [x/a]}, {pem: two, certSigners: [x/b, x/a]}, {certSigners: [x/a]},
  {pem: three}, {pem: four, certSigners: [x/b]}]`)
	for signer, want := range map[string]string{"x/a": "one\ntwo\n", "x/b": "two\nfour\n", "x/c": "", "": ""} {
		if got := string(config.SignerRoots(m, signer)); got != want {
			t.Errorf("%s: %q, want %q", signer, got, want)
		}
	}
}

// TestBudget: every bound can be set by itself. A wrong value leaves the default.
func TestBudget(t *testing.T) {
	usual := config.BudgetOf(nil)
	if usual != (config.Budget{ObjectResources: 20_000, ObjectMiB: 64, NamespaceResources: 200_000, NamespaceMiB: 256,
		JoinedRoutes: 5_000}) {
		t.Errorf("the defaults are %+v", usual)
	}
	with := func(change func(*config.Budget)) config.Budget {
		out := usual
		change(&out)
		return out
	}
	for text, want := range map[string]config.Budget{
		"":                     usual,
		"objectResources=7":    with(func(b *config.Budget) { b.ObjectResources = 7 }),
		"objectMiB=7":          with(func(b *config.Budget) { b.ObjectMiB = 7 }),
		"namespaceResources=7": with(func(b *config.Budget) { b.NamespaceResources = 7 }),
		"namespaceMiB=7":       with(func(b *config.Budget) { b.NamespaceMiB = 7 }),
		"joinedRoutes=7":       with(func(b *config.Budget) { b.JoinedRoutes = 7 }),
		"x=1, objectMiB=1 ,objectResources=0,namespaceMiB=-1,joinedRoutes=many,namespaceResources=": with(func(b *config.Budget) {
			b.ObjectMiB = 1
		}),
		"objectMiB=1073741824": with(func(b *config.Budget) { b.ObjectMiB = 1 << 30 }),
		"objectMiB=1073741825": usual,
	} {
		m := &meshconfig.MeshConfig{DefaultConfig: &meshconfig.ProxyConfig{ProxyMetadata: map[string]string{config.BudgetKey: text}}}
		if got := config.BudgetOf(m); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestEntryVisibility: the first policy counts that matches with all its rules, else the default.
func TestEntryVisibility(t *testing.T) {
	const rules = `{serviceEntryVisibility: {defaultVisibility: NAMESPACE, policies: [
		{visibility: NONE, matchingRules: [{namespaceSelector: {matchLabels: {a: b}}}, {namespaceSelector: {matchLabels: {c: d}}}]},
		{visibility: PUBLIC, matchingRules: [{namespaceSelector: {matchLabels: {a: b}}}]},
		{visibility: NONE, matchingRules: [{namespaceSelector: {matchLabels: {a: b}}}]},
		{visibility: PUBLIC, matchingRules: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]},
		{visibility: PUBLIC, matchingRules: [{namespaceSelector: {matchExpressions: [{key: e, operator: Near}]}}]}]}}`
	for _, c := range []struct {
		text, namespace string
		labels          map[string]string
		want            string
	}{
		{"{}", "x", nil, "PUBLIC"},
		{"{serviceEntryVisibility: {}}", "x", nil, "PUBLIC"},
		{rules, "x", nil, "NAMESPACE"},
		{rules, "x", map[string]string{"a": "b"}, "PUBLIC"},
		{rules, "x", map[string]string{"a": "b", "c": "d"}, "NONE"},
		{rules, "x", map[string]string{"c": "d"}, "NAMESPACE"},
		{rules, "shop", nil, "PUBLIC"},
		{rules, "shop", map[string]string{"a": "b", "c": "d"}, "NONE"},
	} {
		if got := config.EntryVisibility(meshOf(t, c.text).GetServiceEntryVisibility(), c.namespace, c.labels).String(); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.namespace, c.labels, got, c.want)
		}
	}
}
