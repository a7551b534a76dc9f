package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
)

func decoded(t *testing.T, text string) *config.Object {
	t.Helper()
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, problems := d.Decode(config.Document{File: "a.yaml", Line: 1, Text: []byte(text)})
	if o == nil || len(problems) > 0 {
		t.Fatalf("%s: %v", text, problems)
	}
	return o
}

const groupHead = "{apiVersion: networking.istio.io/v1, kind: WorkloadGroup, metadata: {name: vms, namespace: shop}, spec: "

// TestMember: the WorkloadEntry of a machine is its group's template, with what the machine says of itself.
func TestMember(t *testing.T) {
	full := decoded(t, groupHead+`{metadata: {labels: {app: web, a: group}, annotations: {note: x}},
		template: {serviceAccount: web, network: n1, address: 1.2.3.4, weight: 3, labels: {a: template, b: c}},
		probe: {tcpSocket: {port: 80}}}}`)
	bare := decoded(t, groupHead+"{template: {}}}")
	m := config.Member{Namespace: "shop", Group: "vms", Account: "web", Address: "10.0.0.1", Network: "n2"}
	got := m.Register(full)
	spec := config.Spec[*networking.WorkloadEntry](got)
	labels := map[string]string{"app": "web", "a": "group", "b": "c"}
	for name, c := range map[string]struct{ got, want any }{
		"key":         {got.Key, config.Key{Kind: config.WorkloadEntry, Namespace: "shop", Name: "vms-10.0.0.1-n2"}},
		"labels":      {got.Labels.Map(), labels},
		"spec labels": {spec.GetLabels(), labels},
		"annotations": {got.Annotations, map[string]string{"note": "x", "istio.io/autoRegistrationGroup": "vms",
			"proxy.istio.io/health-checks-enabled": "true"}},
		"address": {spec.GetAddress(), "10.0.0.1"},
		"network": {spec.GetNetwork(), "n2"},
		"account": {spec.GetServiceAccount(), "web"},
		"weight":  {spec.GetWeight(), uint32(3)},
		"origins": {
			[]string{got.Made.Origin("spec.weight"), got.Made.Origin("spec.labels.a"), got.Made.Origin("metadata.name")},
			[]string{"spec.template.weight", "spec.metadata.labels.a", "metadata.name"},
		},
		"template is left alone": {config.Spec[*networking.WorkloadGroup](full).GetTemplate().GetLabels(),
			map[string]string{"a": "template", "b": "c"}},
		"a bare one's notes":   {m.Register(bare).Annotations, map[string]string{"istio.io/autoRegistrationGroup": "vms"}},
		"a bare one's account": {config.Membership(bare).GetServiceAccount(), "default"},
		"group":                {m.GroupKey(), full.Key},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	m.Network = ""
	if got := config.Spec[*networking.WorkloadEntry](m.Register(full)).GetNetwork(); got != "n1" {
		t.Errorf("a machine that names no network is in %q", got)
	}
	if one, other := m.Register(full), m.Register(bare); one.Hash == other.Hash || one.Hash != m.Register(full).Hash {
		t.Error("the hash does not tell entries apart")
	}
	for account, takes := range map[string]bool{"web": true, "default": false, "": false} {
		m.Account = account
		if m.Admits(full) != takes || m.Admits(bare) != (account == "default") {
			t.Errorf("account %q is taken: %v, by a bare group: %v", account, m.Admits(full), m.Admits(bare))
		}
	}
}

// TestMemberNames: an entry's name is one that an API server takes.
func TestMemberNames(t *testing.T) {
	for want, m := range map[string]config.Member{
		"a-z.09-10.0.0.1":                      {Group: "a-z.09", Address: "10.0.0.1"},
		"vms-fd00--1":                          {Group: "VMs", Address: "fd00::1"},
		"vms---1":                              {Group: "vms", Address: "::1"},
		"vms-10.0.0.1-n-1":                     {Group: "vms", Address: "10.0.0.1", Network: "n/1"},
		"a-b-c-d-e-1.2.3.4":                    {Group: "`a{b/c:d_e", Address: "1.2.3.4"},
		"g-1.2.3.4":                            {Group: "-.g", Address: "1.2.3.4", Network: "--"},
		strings.Repeat("x", 245) + "-1.2.3.":   {Group: strings.Repeat("x", 245), Address: "1.2.3."},
		strings.Repeat("x", 245) + "-1.2.3.4":  {Group: strings.Repeat("x", 245), Address: "1.2.3.4"},
		strings.Repeat("x", 244) + "-10.0.0.1": {Group: strings.Repeat("x", 250), Address: "10.0.0.1"},
	} {
		if got := m.Entry().Name; got != strings.Trim(want, "-.") || len(got) > 253 {
			t.Errorf("%+v: %s, want %s", m, got, want)
		}
	}
}

// TestAccounts: a WorkloadEntry may name its service account or a SPIFFE ID.
func TestAccounts(t *testing.T) {
	for written, want := range map[string]bool{
		"web": true, "spiffe://cluster.local/ns/shop/sa/web": true, "spiffe://cluster.local/ns/other/sa/web": false,
		"cluster.local/ns/shop/sa/web": false, "web2": false, "": false,
	} {
		if got := config.IsAccount(written, "shop", "web"); got != want {
			t.Errorf("%s: %v", written, got)
		}
	}
}
