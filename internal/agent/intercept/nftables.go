package intercept

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
)

// nft applies rules by netlink.
type nft struct{}

func (nft) name() Backend { return Nftables }

// connectNft makes room for all rules in one transaction, and for their acknowledgements: the kernel's default holds some two hundred.
func connectNft() (*nftables.Conn, error) {
	const room = 16 << 20
	c, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(room), c.SetReadBuffer(room))
	}))
	if err != nil {
		return nil, fmt.Errorf("connect to nf_tables: %w", err)
	}
	return c, nil
}

func nftFamily(f Family) nftables.TableFamily {
	if f == IPv6 {
		return nftables.TableFamilyIPv6
	}
	return nftables.TableFamilyIPv4
}

// tables returns the tables of ours that exist.
func (nft) tables(c *nftables.Conn) ([]*nftables.Table, error) {
	var out []*nftables.Table
	for _, f := range []Family{IPv4, IPv6} {
		all, err := c.ListTablesOfFamily(nftFamily(f))
		if err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		for _, t := range all {
			if t.Name == nftTable {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

func (n nft) found(context.Context) (bool, error) {
	c, err := connectNft()
	if err != nil {
		return false, err
	}
	tables, err := n.tables(c)
	return len(tables) > 0, err
}

// nftChains reports whether there are chains with a prefix.
func nftChains(prefix string) (bool, error) {
	c, err := connectNft()
	if err != nil {
		return false, err
	}
	for _, f := range []Family{IPv4, IPv6} {
		chains, err := c.ListChainsOfTableFamily(nftFamily(f))
		if err != nil {
			return false, fmt.Errorf("list chains: %w", err)
		}
		if slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return strings.HasPrefix(c.Name, prefix) }) {
			return true, nil
		}
	}
	return false, nil
}

// apply replaces all our tables in one transaction, unless they are already as wanted.
func (n nft) apply(_ context.Context, rules []Ruleset) (bool, error) {
	c, err := connectNft()
	if err != nil {
		return false, err
	}
	tables, err := n.tables(c)
	if err != nil {
		return false, err
	}
	there, err := n.describe(c, tables)
	if err != nil {
		return false, err
	}
	if slices.Equal(there, describeWanted(rules)) {
		return false, nil
	}
	for _, t := range tables {
		c.DelTable(t)
	}
	for _, s := range rules {
		if len(s.Chains) > 0 {
			addTable(c, s)
		}
	}
	if err := c.Flush(); err != nil {
		return false, fmt.Errorf("put the rules in place: %w", err)
	}
	return true, nil
}

func addTable(c *nftables.Conn, s Ruleset) {
	table := c.AddTable(&nftables.Table{Name: nftTable, Family: nftFamily(s.Family)})
	accept := nftables.ChainPolicyAccept
	for _, chain := range s.Chains {
		hook := nftables.ChainHookPrerouting
		if chain.Stage.Hook == "output" {
			hook = nftables.ChainHookOutput
		}
		kind, priority := nftKind(chain.Stage)
		made := c.AddChain(&nftables.Chain{
			Name: nftChain(chain), Table: table, Type: nftables.ChainType(kind), Hooknum: hook,
			Priority: nftables.ChainPriorityRef(nftables.ChainPriority(priority)), Policy: &accept,
		})
		for _, r := range chainRules(chain) {
			c.AddRule(&nftables.Rule{Table: table, Chain: made, Exprs: nftExprs(s.Family, r), UserData: comment(s.Family, r)})
		}
	}
}

// comment returns the comment that `nft list` shows behind a rule. It shows whether the rule is still the one that we would make.
func comment(f Family, r Rule) []byte {
	const longest = 120 // nft refuses to list comments over 128 bytes
	text := nftRule(f, r)
	return userdata.AppendString(nil, userdata.TypeComment, text[:min(len(text), longest)])
}

func (n nft) cleanup(context.Context) (bool, error) {
	c, err := connectNft()
	if err != nil {
		return false, err
	}
	tables, err := n.tables(c)
	if err != nil || len(tables) == 0 {
		return false, err
	}
	for _, t := range tables {
		c.DelTable(t)
	}
	if err := c.Flush(); err != nil {
		return false, fmt.Errorf("remove the rules: %w", err)
	}
	return true, nil
}

// describe returns one line for each chain and rule of tables.
func (nft) describe(c *nftables.Conn, tables []*nftables.Table) ([]string, error) {
	var out []string
	for _, t := range tables {
		chains, err := c.ListChainsOfTableFamily(t.Family)
		if err != nil {
			return nil, fmt.Errorf("list chains: %w", err)
		}
		for _, chain := range chains {
			if chain.Table.Name != t.Name {
				continue
			}
			out = append(out, describeChain(t.Family, chain))
			rules, err := c.GetRules(t, chain)
			if err != nil {
				return nil, fmt.Errorf("list rules: %w", err)
			}
			for _, r := range rules {
				out = append(out, describeRule(r.Exprs, r.UserData))
			}
		}
	}
	return out, nil
}

func describeWanted(rules []Ruleset) []string {
	var out []string
	for _, s := range rules {
		for _, c := range s.Chains {
			kind, priority := nftKind(c.Stage)
			out = append(out, fmt.Sprintln(nftFamily(s.Family), nftChain(c), kind, priority))
			for _, r := range chainRules(c) {
				out = append(out, describeRule(nftExprs(s.Family, r), comment(s.Family, r)))
			}
		}
	}
	return out
}

func describeChain(f nftables.TableFamily, c *nftables.Chain) string {
	priority := int32(0)
	if c.Priority != nil {
		priority = int32(*c.Priority)
	}
	return fmt.Sprintln(f, c.Name, c.Type, priority)
}

// describeRule tells rules apart. The library does not read back tproxy, nor the source register of ct: for those the comment decides.
func describeRule(exprs []expr.Any, comment []byte) string {
	var b strings.Builder
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.TProxy:
		case *expr.Ct:
			fmt.Fprintf(&b, "ct %d; ", e.Key)
		case *expr.Redir:
			fmt.Fprintf(&b, "redir %d; ", e.RegisterProtoMin) // the kernel adds the rest
		default:
			fmt.Fprintf(&b, "%T %+v; ", e, reflect.Indirect(reflect.ValueOf(e)))
		}
	}
	fmt.Fprintf(&b, "# %s", comment)
	return b.String()
}
