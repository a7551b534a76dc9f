package intercept

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

func connectNft(t *testing.T) *nftables.Conn {
	c, err := nftables.New()
	if err != nil {
		t.Errorf("connect to nf_tables: %v", err)
		return &nftables.Conn{}
	}
	return c
}

// foreignTable makes a table of another program, with a chain at the same place as one of ours.
func foreignTable(t *testing.T) {
	c := connectNft(t)
	table := c.AddTable(&nftables.Table{Name: "others", Family: nftables.TableFamilyINet})
	chain := c.AddChain(&nftables.Chain{
		Name:     "output",
		Table:    table,
		Type:     nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookOutput,
		Priority: nftables.ChainPriorityMangle,
	})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}})
	if err := c.Flush(); err != nil {
		t.Errorf("add a table: %v", err)
	}
}

// removeOneRule takes one rule of ours away.
func removeOneRule(t *testing.T) {
	c := connectNft(t)
	table := &nftables.Table{Name: "fairway", Family: nftables.TableFamilyIPv4}
	rules, err := c.GetRules(table, &nftables.Chain{Name: "nat_output_output"})
	if err != nil || len(rules) == 0 {
		t.Errorf("list %d rules: %v", len(rules), err)
		return
	}
	rules[0].Chain.Table = table
	if err := c.DelRule(rules[0]); err != nil {
		t.Errorf("remove a rule: %v", err)
	}
	if err := c.Flush(); err != nil {
		t.Errorf("remove a rule: %v", err)
	}
}
