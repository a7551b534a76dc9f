package writeback

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/table"
)

// TestServed: what a control plane tells of its Gateways another one reads; a text that is none of ours says why, and changes nothing.
func TestServed(t *testing.T) {
	g := compile.New(compile.Options{})
	w := &Writer{graph: g}
	held := func() (all []config.Key) {
		g.Store.Settle()
		g.Store.Read(func(tx *table.Tx) { all, _ = table.Lookup(tx, g.GatewayAPI.Elsewhere.Table, "other") })
		return all
	}
	own := func(yield func(config.Key, struct{}) bool) {
		for i := range mostServed + 1 {
			if !yield(config.Key{Kind: config.KubernetesGateway, Namespace: "shop", Name: fmt.Sprintf("g-%05d", i)}, struct{}{}) {
				return
			}
		}
	}
	if err := w.servedElsewhere("other", servedText(own)); err != nil {
		t.Fatal(err)
	}
	all := held()
	if len(all) != mostServed || all[1].Name != "g-00001" || all[1].Namespace != "shop" {
		t.Errorf("%d Gateways, and %v", len(all), all[:min(len(all), 2)])
	}
	for name, text := range map[string]string{
		"no name":       "shop\n",
		"no UTF-8":      "shop/\xff\n",
		"control codes": "shop/a\x1b[0m\n",
		"many":          strings.Repeat("shop/a\n", mostServed+1),
		"much":          strings.Repeat("x", mostServedText) + "/a\n",
	} {
		if err := w.servedElsewhere("other", text); err == nil {
			t.Errorf("%s: it is taken", name)
		}
		if got := held(); len(got) != mostServed {
			t.Errorf("%s: %d Gateways are left", name, len(got))
		}
	}
	if err := w.servedElsewhere("other", ""); err != nil || len(held()) != 0 {
		t.Errorf("one that is gone has %d Gateways, %v", len(held()), err)
	}
}
